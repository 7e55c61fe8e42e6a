package session

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// serve begins what this process serves to the command, and adds its variables and its descriptors to the command.
func (r *run) serve(m *launch.Command) error {
	r.passFDs = r.passFDs[:len(r.passFDs):len(r.passFDs)] // the caller's
	for _, begin := range r.cfg.Serve {
		served, err := begin(r.serving(m))
		if err != nil {
			return err
		}
		r.served = append(r.served, served)
		m.Env = append(m.Env, served.Env...)
		for _, file := range served.Files {
			fd := int(file.Fd())
			if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil { // the command inherits it
				return os.NewSyscallError("fcntl(F_SETFD)", err)
			}
			r.passFDs = append(r.passFDs, fd)
		}
	}
	return nil
}

// serving describes the session to a server.
func (r *run) serving(m *launch.Command) Serving {
	s := Serving{ID: r.id, Emit: func(e event.Event) { r.emit(r.about(e)) }, Env: m.Env}
	switch l := r.opened.(type) {
	case *daemonSession:
		s.Daemon, s.Reload = l.client, l.reload
		if r.reports == nil {
			r.reports = event.NewQueue(callEvents{l, &api.Client{Socket: l.client.Socket, KeepAlive: true, Quiet: true}})
		}
		s.Emit = func(e event.Event) { r.reports.Write(&e) }
	case *kernelSession:
		s.WhyNot = "toolguardd didn't make the session, and only it changes the policy of a running one"
	default:
		s.WhyNot = fmt.Sprintf("the %s backend can't widen a running session", r.report.Backend)
	}
	return s
}

// endServing ends all servers.
func (r *run) endServing() {
	for _, served := range r.served {
		served.Close()
	}
	r.served = nil
	if r.reports == nil {
		return
	}
	if missing, err := r.reports.Close(); missing > 0 {
		r.cfg.notice("%d events about tool calls could not be reported to toolguardd: %v", missing, err)
	}
	r.reports = nil
}

// callEvents reports events about calls to toolguardd, which sends them back with those of the session.
type callEvents struct {
	*daemonSession
	client *api.Client
}

// Write reports an event. toolguardd may be restarting.
func (l callEvents) Write(e *event.Event) error {
	err := l.client.Do("POST", l.path(api.CallEvents), api.CallEvent{Event: e}, nil)
	for pause := 20 * time.Millisecond; errors.Is(err, api.ErrNotRunning) && pause < time.Second; pause *= 2 {
		time.Sleep(pause)
		err = l.client.Do("POST", l.path(api.CallEvents), api.CallEvent{Event: e}, nil)
	}
	return err
}

// reloading is how long a toolguardd that is restarting is waited for.
const reloading = 10 * time.Second

// reload puts the session under another policy, unless another process has replaced the one before. Calls may not overlap. The answer of a
// toolguardd that ends is lost, and it may have done it, or the next one does: then it's done once more.
func (l *daemonSession) reload(c *policy.Compiled) error {
	if loader.FlagsOf(c)&^loader.FlagsOf(l.r.cfg.Policy) != 0 { // system call filters deny these, and no filter can be removed
		return errors.New("a running session can't get internet sockets of a kind that it didn't begin with")
	}
	client, lost := &api.Client{Socket: l.client.Socket, Quiet: true}, false // a new connection for each, so that none is sent twice unnoticed
	for end, pause := time.Now().Add(reloading), 20*time.Millisecond; ; pause = min(2*pause, time.Second) {
		var now api.Session
		n := l.reloads
		err := client.Do("PUT", l.path(api.Policy), api.Reload{Policy: c, Reloads: &n}, &now)
		if err == nil {
			l.reloads = now.Reloads
			return nil
		}
		answer := (*api.StatusError)(nil)
		switch isAnswer := errors.As(err, &answer); {
		case isAnswer && answer.Status == 412 && lost:
			lost = false // by one that this process has done
			l.reloads++
		case isAnswer && answer.Status == 412:
			return api.ErrReplaced
		case isAnswer || time.Now().After(end):
			return err
		default:
			lost = true
			time.Sleep(pause)
		}
	}
}
