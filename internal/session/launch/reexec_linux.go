package launch

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// HasChildren reports whether this process has children before it has started any: it replaced its caller by exec. It reaps those that have
// ended.
func HasChildren() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG|unix.WALL, nil)
		if err != syscall.EINTR && pid <= 0 {
			return err == nil // else ECHILD
		}
	}
}

// Reexec executes this command line again, in a child, and returns its exit status. The children and orphans of that child belong to its session
// alone. Earlier children of this process keep their parent, and are neither waited for nor ended.
func Reexec() (int, error) {
	if err := CheckCapacity(); err != nil {
		return 0, err
	}
	MakeThreads(FewBlocked) // the session may use up all threads
	runtime.LockOSThread()  // the child dies with the thread that made it (PR_SET_PDEATHSIG)
	defer runtime.UnlockOSThread()
	sup := Watch()
	pid, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("start toolguard again, without its caller's children: %w", err)
	}
	sup.SetPID(pid)
	go sup.Forward()
	end := sup.Wait(pid, nil)
	return ExitCode(end.Status), end.Err
}
