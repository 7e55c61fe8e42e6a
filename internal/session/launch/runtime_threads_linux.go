package launch

import "runtime"

// The numbers of threads that toolguard makes before a command starts. The runtime keeps threads: one ends only if its goroutine ends while
// locked to it.
const (
	// maxProcessors bounds the threads that run Go code at once. Most of the time is spent in the kernel.
	maxProcessors = 4
	// FewBlocked is the number of threads in addition, for goroutines that can be in a system call at the same time: the waiting for the command
	// and for signals, the session thread, and one that writes. Three are the runtime's own. Making a thread, using it and ending it takes some
	// 300 µs of processor time.
	FewBlocked = 7
	// MoreBlocked is FewBlocked with the reader of audit records, the writer of events, and the clock.
	MoreBlocked = 10
	// MostBlocked is MoreBlocked with the readers of three ring buffers, and the threads for egress.
	MostBlocked = 16
	// ownThreads is the maximum number of threads.
	ownThreads = maxProcessors + MostBlocked
)

// MakeThreads makes threads until blocked of them can be in system calls: a goroutine is locked to each existing thread until there are enough.
func MakeThreads(blocked int) {
	if runtime.GOMAXPROCS(0) > maxProcessors {
		runtime.GOMAXPROCS(maxProcessors)
	}
	wanted := runtime.GOMAXPROCS(0) + blocked
	enough := make(chan struct{})
	defer close(enough)
	for threadCount() < wanted {
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			<-enough
			runtime.UnlockOSThread()
		}()
		<-locked
	}
}

// threadCount returns the number of the runtime's threads.
func threadCount() int {
	n, _ := runtime.ThreadCreateProfile(nil)
	return n
}
