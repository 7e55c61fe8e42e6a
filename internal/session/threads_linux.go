package session

import (
	"runtime"
	"sync"
)

// The threads that toolguard has before a command starts. The runtime keeps them: only a thread that a goroutine is locked to at its end ends.
const (
	// maxProcessors bounds how many threads compute at once. It's enough: what takes time is the kernel's work.
	maxProcessors = 4
	// ownThreads are those, and one for each goroutine that can be in a system call at the same time: the waiting for the command and for
	// signals, the session's thread, egress's, the readers of three rings and of audit records, the writer of events, the clock, and what
	// looks at processes; and the runtime's own two.
	ownThreads = 20
	// fewThreads are those where nobody reads rings and there is no egress. Each thread takes some 50 µs to make.
	fewThreads = 12
)

// makeThreads makes those of n threads that are missing: it has as many goroutines as that, each locked to one, and lets them go when the last
// one runs.
func makeThreads(n int) {
	if runtime.GOMAXPROCS(0) > maxProcessors {
		runtime.GOMAXPROCS(maxProcessors)
	}
	var running sync.WaitGroup
	running.Add(n)
	all := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			running.Done()
			<-all
			runtime.UnlockOSThread()
		}()
	}
	running.Wait()
	close(all)
}
