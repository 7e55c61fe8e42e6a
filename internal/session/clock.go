package session

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// policyLimit is the limit that ended the session.
type policyLimit struct {
	name     string
	position policy.Position
}

// killer ends the processes of a session.
type killer interface {
	Signal(syscall.Signal)
	Kill(ended func(wait time.Duration) bool)
}

// startClock ends all processes of a session when its wall time is up, and stores that in limit. abort ends the wait for a process that can't be
// killed. The returned function stops the clock.
func startClock[K killer](c *policy.Compiled, s *launch.Supervisor, processes func() K, limit *atomic.Pointer[policyLimit], abort func()) (stop func()) {
	w := c.Limits.WallTime
	if w.D <= 0 {
		return func() {}
	}
	s.IgnoreTerminal()
	stopped := make(chan struct{})
	go func() {
		ended := func(wait time.Duration) bool {
			select {
			case <-stopped:
				return true
			case <-time.After(wait):
				return false
			}
		}
		if ended(w.D) {
			return
		}
		limit.Store(&policyLimit{"wall_time", w.Position})
		processes().Signal(syscall.SIGTERM)
		processes().Signal(syscall.SIGCONT)
		if ended(launch.Grace) {
			return
		}
		late := time.Now().Add(launch.Patience)
		processes().Kill(func(wait time.Duration) bool { return ended(wait) || time.Now().After(late) })
		abort()
	}()
	return func() { close(stopped) }
}

func countProcesses(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}
