package session

import (
	"fmt"

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
}

// reload puts the session under another policy.
func (l *daemonSession) reload(c *policy.Compiled) error {
	return l.client.Do("PUT", l.path(api.Policy), api.Reload{Policy: c}, nil)
}
