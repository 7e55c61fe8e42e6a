package launch

import (
	"os"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/proc"
)

// How long processes that outlive the first one have between SIGTERM and SIGKILL, and how long toolguard then waits for
// those that the kernel can't end at once (uninterruptible sleep).
const (
	Grace    = 2 * time.Second
	Patience = 5 * time.Second
)

// lastMoment is how long what is about to end by itself, as the parts of a pipe are, has for that before it counts as left behind.
const lastMoment = 10 * time.Millisecond

// Processes are all processes of a session.
type Processes struct {
	Thread *Thread
	Scoped bool // the thread's domain keeps signals within it (Landlock ABI 6)
	Within bool // the session is in another one
}

// Signal signals all processes of the session. Before Landlock ABI 6, and in a session within another, which would hear of
// every other process of the machine that signalAll asks for, they are looked for in /proc, which those that fork fast
// enough escape for a while; toolguard is their subreaper, so that none can leave the tree.
func (p *Processes) Signal(sig syscall.Signal) {
	if !p.Within && p.Scoped && p.Thread.signalAll(sig) == nil {
		return
	}
	proc.SignalDescendants(os.Getpid(), sig, proc.Children())
}

// Kill sends all processes of the session SIGKILL until ended, which may take as long as given, says that they have. From
// within one signal reaches all, and has the kernel log a refusal for every other process of the machine: there the pauses grow.
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

// End ends what the command left behind: SIGTERM, and after the grace SIGKILL until nothing is left. It returns
// how many there were and how many are still there.
func (p *Processes) End() (ended, left int) {
	if reapUntil(time.Now().Add(lastMoment)) {
		return 0, 0 // they were about to end by themselves
	}
	ended = max(1, len(proc.Descendants(os.Getpid(), proc.Children())))
	p.Signal(syscall.SIGTERM)
	p.Signal(syscall.SIGCONT)
	if reapUntil(time.Now().Add(Grace)) {
		return ended, 0
	}
	deadline := time.Now().Add(Patience)
	p.Kill(func(wait time.Duration) bool {
		return reapUntil(time.Now().Add(wait)) || time.Now().After(deadline)
	})
	return ended, len(proc.Descendants(os.Getpid(), proc.Children()))
}

// reap collects what has ended. none is true when no child is left.
func reap() (n int, none bool) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return n, true // ECHILD
		case pid == 0:
			return n, false
		default:
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
