package forkexec

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread runs f on an OS thread that ends with it and isn't the process's first: that one can't end while the process lives,
// and what is asked of the process as a whole (kill, /proc/PID) is decided by its domain, which is to be none.
func OnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f()
			return // still locked, so that the thread ends: it's spoilt for any other use
		}
		found := make(chan struct{})
		OnThread(func() { // on another thread, since this one is locked
			close(found)
			f()
		})
		<-found
		runtime.UnlockOSThread()
	}()
}
