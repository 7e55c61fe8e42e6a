package launch

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

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
	ownThreads = 2*maxProcessors + MostBlocked
	// maxWait bounds the wait for threads that the runtime is about to make, should a kernel's /proc count threads in another way.
	maxWait = 10 * time.Second
)

// MakeThreads makes threads until blocked of them can be in system calls: a goroutine is locked to each existing thread until there are enough.
// Then it waits for those that the runtime counts and hasn't made yet: a locked thread has another one make them (newmHandoff in Go's runtime). If the
// command used up all processes before, the runtime would crash toolguard.
func MakeThreads(blocked int) {
	if runtime.GOMAXPROCS(0) > maxProcessors {
		runtime.GOMAXPROCS(maxProcessors)
	}
	wanted := 2*runtime.GOMAXPROCS(0) + blocked // a thread that has given up its processor isn't idle at once
	enough := make(chan struct{})
	defer close(enough)
	for end := time.Now().Add(maxWait); ; {
		switch {
		case threadCount() < wanted:
			lockThread(enough)
		case kernelThreads() < threadCount() && time.Now().Before(end):
			_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) // the thread that makes them may wait for this processor
		default:
			return
		}
	}
}

// lockThread locks a goroutine to a thread until it is enough.
func lockThread(enough <-chan struct{}) {
	locked := make(chan struct{})
	go func() {
		runtime.LockOSThread()
		close(locked)
		<-enough
		runtime.UnlockOSThread()
	}()
	<-locked
}

// threadCount returns the number of the runtime's threads, including those that it is about to make.
func threadCount() int {
	n, _ := runtime.ThreadCreateProfile(nil)
	return n - neverMade
}

// kernelThreads returns the number of this process's threads: the kernel adds it to the two links of the folder (proc_task_getattr). Where /proc is
// missing, or isn't Linux's, it returns the runtime's number.
func kernelThreads() int {
	var st unix.Stat_t
	if unix.Stat("/proc/self/task", &st) != nil || st.Nlink <= 2 {
		return threadCount()
	}
	return int(st.Nlink) - 2
}
