package daemon

import (
	"errors"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A thread that hasn't set no_new_privs is refused, whatever others of its process have.
func TestNoNewPrivs(t *testing.T) {
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set != 0 {
		t.Skip("needs a process that hasn't set no_new_privs")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	plain := unix.Gettid()
	err := childtest.Thread(func() error {
		for thread, want := range map[int]int{unix.Gettid(): 0, plain: 403, 1<<22 + 1: 409} {
			status := 0
			var f *failure
			if err := noNewPrivs(os.Getpid(), thread); errors.As(err, &f) {
				status = f.status
			}
			if status != want {
				t.Errorf("thread %d: %d, want %d", thread, status, want)
			}
		}
		return nil
	})
	must(t, err)
}
