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

// The process's first thread is never restricted: the attempt is refused before anything has been done to it.
func TestFirstThreadIsRefused(t *testing.T) {
	got := childtest.Run[restricted](t, os.Getuid(), "restrict the first thread")
	if want := "find a thread for the session: it's toolguard's first"; got.Err != want || got.NoNewPrivs {
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

// What is to be restricted gets another thread, also where the runtime would take the first one.
func TestLaterThreads(t *testing.T) {
	got := childtest.Run[threads](t, os.Getuid(), "find later threads")
	if got.First != 0 || got.Later != rounds {
		t.Errorf("%+v", got)
	}
}

const rounds = 200

type threads struct{ First, Later int }

// findLater frees the first thread and gives the runtime only one processor, so that a goroutine runs where the one before it
// ran: on the first thread, which each round makes sure of.
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

// ontoFirst returns when a goroutine has run on the first thread, as the last of all threads: each thread that isn't the first is held
// until the runtime has no other one left.
func ontoFirst() error {
	type held struct{ release, done chan struct{} }
	letGo := func(h held) {
		close(h.release)
		<-h.done
	}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		var others []held
		for range 100 {
			runtime.Gosched() // to who holds the first thread, and is about to let go of it
			h, first := held{make(chan struct{}), make(chan struct{})}, make(chan bool)
			go func() {
				defer close(h.done)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				first <- unix.Gettid() == os.Getpid()
				<-h.release
			}()
			if <-first {
				for _, o := range others {
					letGo(o)
				}
				letGo(h)
				return nil
			}
			others = append(others, h)
		}
		for _, o := range others {
			letGo(o)
		}
	}
	return errors.New("no goroutine runs on the first thread")
}

// All is signalled only from where the kernel keeps the signal to the session. A signal of nothing shows who would be.
func TestSignalAllNeedsScope(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: no other user may signal process 1 anyway")
	}
	if abi, _, err := landlock.Probe(); err != nil || abi < 6 {
		t.Skipf("needs Landlock ABI 6: %d, %v", abi, err)
	}
	if got := childtest.Run[string](t, 0, "signal all without a scope"); got != errNotScoped.Error() {
		t.Errorf("without a scope: %q", got)
	}
	if got := childtest.Run[string](t, 0, "signal all within a scope"); got != "" {
		t.Errorf("within a scope: %q", got)
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

// signalFrom sends a signal of nothing to all, from a thread that has been prepared.
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
