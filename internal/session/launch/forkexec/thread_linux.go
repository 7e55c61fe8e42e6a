package forkexec

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread runs f on an OS thread that ends with f and isn't the process's first thread: that one can't end before the process, and its
// Landlock domain decides about accesses to the process as a whole (kill, /proc/PID).
func OnThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != os.Getpid() {
			f()
			return // still locked, so that the restricted thread ends
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
