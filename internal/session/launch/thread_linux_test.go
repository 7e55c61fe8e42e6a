package launch

import (
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Restricting the process's first thread fails before it changes anything.
func TestFirstThreadIsRejected(t *testing.T) {
	got := childtest.Run[restricted](t, os.Getuid(), "restrict the first thread")
	if want := "find a thread for the session: this is the first thread"; got.Err != want || got.NoNewPrivs {
		t.Errorf("%+v", got)
	}
}

type restricted struct {
	Err        string
	NoNewPrivs bool
}

func restrictFirst() (any, error) {
	if unix.Gettid() != os.Getpid() {
		return nil, errors.New("this isn't the first thread")
	}
	err := new(Command).RestrictThread()
	if err == nil {
		return restricted{}, nil
	}
	set, perr := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	return restricted{err.Error(), set != 0}, perr
}

// OnThread never uses the first thread, even if the runtime would.
func TestLaterThreads(t *testing.T) {
	got := childtest.Run[threads](t, os.Getuid(), "find later threads")
	if got.First != 0 || got.Later != rounds {
		t.Errorf("%+v", got)
	}
}

const rounds = 200

type threads struct{ First, Later int }

// findLater unlocks the first thread and limits the runtime to one processor, so that a goroutine runs on the thread of the one before it. Each
// round ensures that this is the first thread.
func findLater() (any, error) {
	runtime.UnlockOSThread() // of childtest's init
	runtime.UnlockOSThread() // of childtest.Main
	runtime.GOMAXPROCS(1)
	var got threads
	for range rounds {
		if err := ontoFirst(); err != nil {
			return nil, err
		}
		tid := make(chan int)
		forkexec.OnThread(func() { tid <- unix.Gettid() })
		if <-tid == os.Getpid() {
			got.First++
		} else {
			got.Later++
		}
	}
	return got, nil
}

// ontoFirst returns when a goroutine has run on the first thread: every other thread stays locked until the runtime has only the first one.
func ontoFirst() error {
	type lock struct{ release, done chan struct{} }
	unlock := func(l lock) {
		close(l.release)
		<-l.done
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		var others []lock
		for range 100 {
			runtime.Gosched() // lets the goroutine that is locked to the first thread end
			l, first := lock{make(chan struct{}), make(chan struct{})}, make(chan bool)
			go func() {
				defer close(l.done)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				first <- unix.Gettid() == os.Getpid()
				<-l.release
			}()
			if <-first {
				for _, o := range others {
					unlock(o)
				}
				unlock(l)
				return nil
			}
			others = append(others, l)
		}
		for _, o := range others {
			unlock(o)
		}
	}
	return errors.New("no goroutine runs on the first thread")
}

// signalAll signals only if the kernel denies signals to processes outside the session. Signal 0 shows that.
func TestSignalAllNeedsScope(t *testing.T) {
	childtest.NeedsRoot(t, "no other user may signal process 1 anyway")
	if abi, _, err := landlock.Probe(); err != nil || abi < 6 {
		t.Skipf("needs Landlock ABI 6: %d, %v", abi, err)
	}
	if got := childtest.Run[string](t, 0, "signal all without a scope"); got != errNotScoped.Error() {
		t.Errorf("without a scope: %q", got)
	}
	if got := childtest.Run[string](t, 0, "signal all with a scope"); got != "" {
		t.Errorf("with a scope: %q", got)
	}
}

func signalUnscoped() (any, error) { return signalFrom(func() error { return nil }) }

func signalScoped() (any, error) {
	layer := policy.SourceLayer{Authority: policy.Session}
	layer.Defaults[policy.FS] = policy.Deny
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Layers: []policy.SourceLayer{layer}}, hostfs.Machine{})
	if err != nil {
		return nil, err
	}
	plan, err := landlock.NewPlan(c, 6)
	if err != nil {
		return nil, err
	}
	return signalFrom(plan.Apply)
}

// signalFrom sends signal 0 to all processes, from a prepared thread.
func signalFrom(prepare func() error) (string, error) {
	in := &Thread{calls: make(chan func())}
	ready := make(chan error)
	go func() {
		_ = childtest.Thread(func() error {
			ready <- prepare()
			for f := range in.calls {
				f()
			}
			return nil
		})
	}()
	if err := <-ready; err != nil {
		return "", err
	}
	if err := in.signalAll(0); err != nil {
		return err.Error(), nil
	}
	return "", nil
}
