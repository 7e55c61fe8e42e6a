package childtest

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// A locked thread exits with its goroutine, except for the process's first thread, which only stops, with its restrictions still
// visible as the process's. So the main goroutine, in which no test runs, locks it.
func init() { runtime.LockOSThread() }

// Thread runs a function on a new thread with no_new_privs.
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

// Bench measures a function on new threads.
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
