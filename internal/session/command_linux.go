package session

import (
	"errors"
	"fmt"

	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/launch"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// program returns the program to execute, with its environment.
func (r *run) program() (*launch.Command, error) {
	path, err := launch.Lookup(r.cfg.Argv[0], r.cfg.Env)
	if err != nil {
		return nil, err
	}
	m := &launch.Command{Path: path, Argv: r.cfg.Argv}
	m.Env, r.result.RemovedEnv = launch.Environ(r.cfg.Policy, r.cfg.canonical(path), r.cfg.Env)
	return m, nil
}

// command prepares the start of the program in the session.
func (r *run) command(m *launch.Command) (_ *launch.Command, err error) {
	c := r.cfg.Policy
	m.Name = r.id[:15] // the maximum length of a thread's name
	if m.Keep, err = launch.Descriptors(r.passFDs); err != nil {
		return nil, err
	}
	if err := rejectSockets(c, m.Keep); err != nil {
		return nil, err
	}
	if r.backend.Wrap != nil {
		if r.cfg.Linger {
			return nil, fmt.Errorf("--linger: within %s the kernel kills what the command leaves running; use another backend, or leave it out", r.report.Backend)
		}
		if m.Wrapper, err = r.backend.Wrap(c); err != nil {
			return nil, err
		}
	}
	r.prefetch(m)
	if m.Plan, err = r.plan(); err != nil {
		return nil, err
	}
	if m.Plan != nil && m.Wrapper == nil { // the stage within a wrapper opens the paths there
		if err := m.Plan.Prepare(); err != nil {
			return nil, err
		}
	}
	return m, r.limits(m)
}

// prefetch makes the thread drop capabilities and make the filters, while granted paths are opened.
func (r *run) prefetch(m *launch.Command) {
	c, mechanisms := r.cfg.Policy, r.seccompBackend()
	m.Prefetch(r.thread, backend.Capabilities(c), func() ([]seccomp.Filter, error) { return seccomp.Filters(c, mechanisms) })
}

// plan returns the Landlock rules of this session; nil: none.
func (r *run) plan() (*landlock.Plan, error) {
	abi, err := backend.LandlockABI()
	if r.backend.Wrap != nil {
		abi = r.backend.Level
	}
	switch {
	case r.opened != nil && r.net.Enforces():
		return nil, nil
	case r.opened != nil:
		return landlock.NewPortsPlan(r.cfg.Policy, abi), nil
	case err != nil:
		return nil, err
	}
	p, err := landlock.NewPlan(r.cfg.Policy, abi)
	if err == nil && r.net.Enforces() {
		p.DropPorts()
	}
	return p, err
}

// seccompBackend describes the mechanisms that enforce the session alongside the system call filters.
func (r *run) seccompBackend() seccomp.Backend {
	return seccomp.Backend{ABI: r.backend.Level, Net: r.net.Enforces(), Sealed: seccomp.Sealed()}
}

// confine restricts the thread and places it in the session, permanently.
func (r *run) confine() error {
	var err error
	r.thread.Do(func() { err = r.cmd.RestrictThread() })
	if err == nil {
		r.thread.Do(func() { err = r.enterSession() })
		if err == nil {
			return nil
		}
		if err = r.fallBack(&forkexec.Error{Purpose: "place the thread in the session", Err: err}); err == nil {
			return r.confine()
		}
	}
	return errors.Join(r.startFailure(err), r.undo())
}
