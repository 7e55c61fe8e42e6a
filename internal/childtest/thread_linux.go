package childtest

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A locked thread ends with its goroutine, but the process's first one only stops, and the process would count as what it has become. So it's
// the main goroutine's, in which no test runs.
func init() { runtime.LockOSThread() }

// Thread does something on a thread of its own that has no_new_privs.
func Thread(do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// Bench times what is done to a fresh thread.
func Bench(b *testing.B, do func() error) {
	b.Helper()
	for b.Loop() {
		b.StopTimer()
		err := Thread(func() error {
			b.StartTimer()
			defer b.StopTimer()
			return do()
		})
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
