package launch

import (
	"cmp"
	"os"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/proc"
)

// Processes are all processes of a session.
type Processes struct {
	Thread  *Thread
	Scoped  bool // the thread's domain scopes signals (Landlock ABI 6)
	Nested  bool // the session is nested in another one
	Wrapped bool // the session ran within a wrapper
	Wrapper int  // the process of the wrapper, which ends with the command and isn't signalled itself; 0: none
}

// Signal signals all processes of the session. Before Landlock ABI 6 it finds them in /proc, which processes that fork fast can escape for a
// while; toolguard is their subreaper, so that they can't leave the tree. It does so in a nested session, too: there, each denied signal of
// signalAll would be reported to the outer session.
func (p *Processes) Signal(sig syscall.Signal) {
	if !p.Nested && p.Scoped && p.Thread.signalAll(sig) == nil {
		return
	}
	proc.SignalDescendants(cmp.Or(p.Wrapper, os.Getpid()), sig, proc.Children())
}

// Kill sends SIGKILL to all processes of the session until ended, which waits up to the given time, reports that they have ended. The pauses grow
// if Landlock scopes signals: one signal reaches all, and the kernel logs a denial for every other process of the machine.
func (p *Processes) Kill(ended func(wait time.Duration) bool) {
	for pause := 20 * time.Millisecond; ; {
		p.Signal(syscall.SIGKILL)
		if ended(pause) {
			return
		}
		if p.Scoped {
			pause = min(2*pause, time.Second)
		}
	}
}

// End ends the orphans of the command: it sends SIGTERM, and SIGKILL after Grace. It returns the number of orphans, and of those that remain.
func (p *Processes) End() (orphans, remaining int) {
	about := exitTime
	if p.Wrapped {
		about = Grace // the kernel kills the processes of a PID namespace, of which toolguard inherits the first
	}
	if reapUntil(time.Now().Add(about)) {
		return 0, 0 // they were about to end by themselves
	}
	orphans = max(1, len(proc.Descendants(os.Getpid(), proc.Children())))
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGCONT)
	if reapUntil(time.Now().Add(Grace)) {
		return orphans, 0
	}
	deadline := time.Now().Add(Patience)
	p.Kill(func(wait time.Duration) bool {
		return reapUntil(time.Now().Add(wait)) || time.Now().After(deadline)
	})
	return orphans, len(proc.Descendants(os.Getpid(), proc.Children()))
}

// reap reaps the children that have ended. none is true if there are no children.
func reap() (n int, none bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return n, true // ECHILD
		case pid == 0:
			return n, false
		default:
			proc.Reaped(pid, ws)
			n++
		}
	}
}

func reapUntil(deadline time.Time) (none bool) {
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		if _, none := reap(); none {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(pause)
	}
}
