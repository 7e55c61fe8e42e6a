package session

import (
	"fmt"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// policyLimit says which limit ended the session.
type policyLimit struct {
	name  string
	place policy.Position
}

// startClock ends the session when its wall time is up: all of it, since a process of the session can keep the first one from
// being seen to end by tracing it. The returned function stops the clock.
func (r *run) startClock() (stop func()) {
	w := r.cfg.Policy.Limits.WallTime
	if w.D <= 0 {
		return func() {}
	}
	r.supervisor.IgnoreTerminal()
	over := make(chan struct{})
	go func() {
		ended := func(wait time.Duration) bool {
			select {
			case <-over:
				return true
			case <-time.After(wait):
				return false
			}
		}
		if ended(w.D) {
			return
		}
		r.limit.Store(&policyLimit{"wall_time", w.Position})
		r.members().Signal(syscall.SIGTERM)
		r.members().Signal(syscall.SIGCONT)
		if ended(launch.Grace) {
			return
		}
		late := time.Now().Add(launch.Patience)
		r.members().Kill(func(wait time.Duration) bool { return ended(wait) || time.Now().After(late) })
		r.abortWait()
	}()
	return func() { close(over) }
}

func (r *run) end(e launch.Exit) {
	r.last = &e
	r.supervisor.Quiet()
	r.endEgress()
	if r.cfg.Linger {
		r.cfg.notice("the private TMPDIR %s stays: what still runs may use it", r.cfg.Policy.TmpDir)
	} else {
		r.endOrphans()
	}
	r.thread.Close()
	r.result.Code = launch.ExitCode(e.Status)
	r.closeNetwork()
	r.denials.Drain(r.closeSession)
	r.closeSession()
	if l := r.limit.Load(); l != nil {
		r.denials.LimitMet(l.name, l.place, 1)
	}
	r.result.Summary = r.denials.Summary()
	r.result.NoUnix = seccomp.DeniesUnixSockets(r.cfg.Policy, r.seccompBackend())
	r.emit(r.endEvent())
}

// members are the processes of the session.
func (r *run) members() *launch.Processes {
	return &launch.Processes{Thread: r.thread, Scoped: r.backend.Level >= 6, Within: r.within}
}

// endOrphans ends what the first process left, and takes the cgroup away.
func (r *run) endOrphans() {
	var left int
	if r.result.Leftover, left = r.members().End(); r.result.Leftover > 0 {
		r.cfg.notice("%s that the command had left in the background ended with it (--linger leaves such running)", processes(r.result.Leftover))
	}
	if left > 0 {
		r.cfg.notice("%d processes of the session don't end; they stay under its restrictions", left)
	}
	if r.group != nil {
		r.endGroup()
	}
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
