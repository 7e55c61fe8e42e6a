package session

import (
	"errors"
	"fmt"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch"
	"golang.org/x/sys/unix"
)

// serve begins to serve the session's calls, if anything does, and adds its variables and its descriptor to the command.
func (r *run) serve(m *launch.Command) error {
	if r.cfg.Serve == nil {
		return nil
	}
	s := Serving{ID: r.id, Emit: func(e event.Event) { r.emit(r.about(e)) }, Env: m.Env}
	switch l := r.opened.(type) {
	case *daemonSession:
		s.Daemon, s.Reload = l.client, l.reload
		r.reports = event.NewQueue(callEvents{l})
		s.Emit = func(e event.Event) { r.reports.Write(&e) }
	case *kernelSession:
		s.WhyNot = "toolguardd didn't make the session, and only it changes the policy of a running one"
	default:
		s.WhyNot = fmt.Sprintf("the %s backend can't widen a running session", r.report.Backend)
	}
	served, err := r.cfg.Serve(s)
	if err != nil {
		return err
	}
	r.served = served
	m.Env = append(m.Env, served.Env...)
	if served.File == nil {
		return nil
	}
	fd := int(served.File.Fd())
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0); err != nil { // the command inherits it
		return err
	}
	r.passFDs = append(r.passFDs[:len(r.passFDs):len(r.passFDs)], fd)
	return nil
}

// endServing ends the server of the session's calls.
func (r *run) endServing() {
	if r.served != nil {
		r.served.Close()
		r.served = nil
	}
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
