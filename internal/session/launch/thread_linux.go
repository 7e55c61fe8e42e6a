package launch

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Thread is the locked OS thread that is restricted to the session's domain, and starts the command. It's made early, since what
// doesn't depend on the policy is done on it while that is read. It lives as long as the session:
// the kernel kills the command when the thread that made it ends (PR_SET_PDEATHSIG), and only from within can all of the
// session be signalled at once.
//
// The command isn't in the thread's domain but in one within it (see Command.Fork): it could trace and signal whatever is in
// its own, and this thread shares its memory with all of toolguard.
type Thread struct {
	calls chan func()

	mu     sync.Mutex
	closed bool
}

// maxAhead is how much can be asked for ahead before the thread has got to it, without waiting.
const maxAhead = 2

// NewThread makes the thread, which does first before it can be asked for anything.
func NewThread(first func()) *Thread {
	in := &Thread{calls: make(chan func(), maxAhead)}
	forkexec.OnThread(func() {
		first()
		for f := range in.calls {
			f()
		}
	})
	return in
}

var errNotScoped = errors.New("the thread isn't kept from signalling others")

// signalAll signals every process of the session at once, however fast they fork: kill(2) with -1 goes through all
// processes under the lock that fork needs, and Landlock's signal scope (ABI 6) keeps it from all that aren't in the
// session's domain or in one within it. Only a session that has been started may be signalled: before, the scope isn't in force, and kill would
// reach all that the user may signal. As root that the scope holds is asked of the kernel besides, with a signal of nothing
// to process 1; any other user may not signal that one anyway.
func (in *Thread) signalAll(sig syscall.Signal) error {
	err := errNotScoped
	in.Do(func() {
		if os.Getpid() != 1 && errors.Is(syscall.Kill(1, 0), syscall.EPERM) {
			err = syscall.Kill(-1, sig)
		}
	})
	return err
}

// Do runs f on the thread, and does nothing after leave.
func (in *Thread) Do(f func()) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return
	}
	done := make(chan struct{})
	in.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

// ahead has the thread do f before what it's asked to do later, while the caller goes on. What came of it can be received there then.
func (in *Thread) ahead(f func() error) <-chan error {
	done := make(chan error, 1)
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.calls <- func() { done <- f() }
	}
	return done
}

// Close ends the thread.
func (in *Thread) Close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.closed {
		in.closed = true
		close(in.calls)
	}
}
