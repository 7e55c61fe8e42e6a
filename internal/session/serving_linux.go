package session

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch"
	"golang.org/x/sys/unix"
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
			r.reports = event.NewQueue(callEvents{l})
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
type callEvents struct{ *daemonSession }

// Write reports an event. toolguardd may be restarting.
func (l callEvents) Write(e *event.Event) error {
	err := l.client.Do("POST", l.path(api.CallEvents), api.CallEvent{Event: e}, nil)
	for pause := 20 * time.Millisecond; errors.Is(err, api.ErrNotRunning) && pause < time.Second; pause *= 2 {
		time.Sleep(pause)
		err = l.client.Do("POST", l.path(api.CallEvents), api.CallEvent{Event: e}, nil)
	}
	return err
}

// reload puts the session under another policy.
func (l *daemonSession) reload(c *policy.Compiled) error {
	return l.client.Do("PUT", l.path(api.Policy), api.Reload{Policy: c}, nil)
}
