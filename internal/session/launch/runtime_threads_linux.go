package launch

import "runtime"

// The threads that toolguard has before a command starts. The runtime keeps them: only a thread that a goroutine is locked to at its end ends.
const (
	// maxProcessors bounds how many threads compute at once. It's enough: what takes time is the kernel's work.
	maxProcessors = 4
	// FewBlocked is how many threads there are besides, since as many goroutines can be in a system call at the same time: the waiting for the
	// command and for signals, the session's thread, the reader of audit records, the writer of events and the clock; and the runtime's own three,
	// and the one that proves Landlock and ends. Each thread takes some 50 µs to make, and others at the end.
	FewBlocked = 10
	// MostBlocked is fewBlocked with the readers of three rings, and what egress takes.
	MostBlocked = 16
	// ownThreads is the most that toolguard needs.
	ownThreads = maxProcessors + MostBlocked
)

// MakeThreads makes those threads that are missing where so many can be blocked: a goroutine holds each that there is, until there are enough.
func MakeThreads(blocked int) {
	if runtime.GOMAXPROCS(0) > maxProcessors {
		runtime.GOMAXPROCS(maxProcessors)
	}
	wanted := runtime.GOMAXPROCS(0) + blocked
	enough := make(chan struct{})
	defer close(enough)
	for threadCount() < wanted {
		held := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(held)
			<-enough
			runtime.UnlockOSThread()
		}()
		<-held
	}
}

// threadCount is how many threads the runtime has.
func threadCount() int {
	n, _ := runtime.ThreadCreateProfile(nil)
	return n
}
