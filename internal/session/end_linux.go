package session

import (
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// startClock ends all processes of the session when its wall time is up: a process that traces the first one can prevent waiting for it. The
// returned function stops the clock.
func (r *run) startClock() (stop func()) {
	return startClock(r.cfg.Policy, r.supervisor, r.processes, &r.limit, r.abortWait)
}

func (r *run) end(e launch.Exit) {
	r.last = &e
	r.wrapper.Store(0)
	r.supervisor.AllowOutput()
	r.endServing() // its hooks aren't the command's orphans
	r.endEgress()
	if r.cfg.Linger {
		r.cfg.notice("the private TMPDIR %s stays, because remaining processes may use it", r.cfg.Policy.TmpDir)
	} else {
		r.endOrphans()
	}
	r.thread.Close()
	r.result.Code = launch.ExitCode(e.Status)
	r.closeNetwork()
	r.denials.Drain(r.closeSession)
	r.closeSession()
	if l := r.limit.Load(); l != nil {
		r.denials.LimitMet(l.name, l.position, 1)
	}
	r.result.Summary = r.denials.Summary()
	r.result.NoUnix = seccomp.DeniesUnixSockets(r.cfg.Policy, r.seccompBackend())
	r.emit(r.endEvent())
}

// processes returns the processes of the session.
func (r *run) processes() *launch.Processes {
	return &launch.Processes{Thread: r.thread, Scoped: r.backend.Level >= 6 && r.backend.Wrap == nil, Nested: r.nested, Wrapped: r.backend.Wrap != nil, Wrapper: int(r.wrapper.Load())}
}

// endOrphans ends the orphans of the first process, and removes the cgroup.
func (r *run) endOrphans() {
	var remaining int
	if r.result.Orphans, remaining = r.processes().End(); r.result.Orphans > 0 {
		r.cfg.notice("%s that the command had left in the background ended with it (--linger leaves such running)", countProcesses(r.result.Orphans))
	}
	if remaining > 0 {
		r.cfg.notice("%d processes of the session don't end; they stay under its restrictions", remaining)
	}
	if r.group != nil {
		r.endGroup()
	}
}
