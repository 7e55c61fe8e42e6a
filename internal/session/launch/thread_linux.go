package launch

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Thread is the session thread: the locked OS thread that is restricted to the session's Landlock domain, and forks the command. It exists before
// the policy is read, for work that doesn't depend on the policy, and until the session ends: the kernel kills the command when the thread that
// forked it ends (PR_SET_PDEATHSIG), and a signal from its domain reaches the whole session at once.
type Thread struct {
	calls chan func()

	mu     sync.Mutex
	closed bool
}

// maxPrefetch is the number of prefetch calls that are queued without waiting.
const maxPrefetch = 2

// NewThread makes the thread, which runs first before other calls.
func NewThread(first func()) *Thread {
	t := &Thread{calls: make(chan func(), maxPrefetch)}
	forkexec.OnThread(func() {
		first()
		for f := range t.calls {
			f()
		}
	})
	return t
}

var errNotScoped = errors.New("the thread may signal processes outside the session")

// signalAll signals every process of the session at once, however fast they fork: kill(2) with -1 goes through all processes under the lock that
// fork needs, and Landlock's signal scope (ABI 6) denies it for processes outside the session's domain. Before the session has started the scope
// isn't in force, and kill would reach all processes that the user may signal. So it first checks that signal 0 to process 1 is denied, which
// root could send without the scope.
func (t *Thread) signalAll(sig syscall.Signal) error {
	err := errNotScoped
	t.Do(func() {
		if os.Getpid() != 1 && errors.Is(syscall.Kill(1, 0), syscall.EPERM) {
			err = syscall.Kill(-1, sig)
		}
	})
	return err
}

// Do runs f on the thread. After Close it does nothing.
func (t *Thread) Do(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	done := make(chan struct{})
	t.calls <- func() {
		defer close(done)
		f()
	}
	<-done
}

// prefetch queues f on the thread, before later calls, without waiting. The result can be received later.
func (t *Thread) prefetch(f func() error) <-chan error {
	done := make(chan error, 1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.calls <- func() { done <- f() }
	}
	return done
}

// Close ends the thread.
func (t *Thread) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		close(t.calls)
	}
}
