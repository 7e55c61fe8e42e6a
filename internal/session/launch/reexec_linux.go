package launch

import (
	"fmt"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// HasChildren says whether this process has children although it has started none: it has come into the place of its caller by
// exec. Those that have ended are collected on the way.
func HasChildren() bool {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG|unix.WALL, nil)
		if err != syscall.EINTR && pid <= 0 {
			return err == nil // else ECHILD
		}
	}
}

// Reexec runs this very command line once more, as a child, and returns its exit status. What the kernel hands to the child as its
// own children, and to it as the subreaper, is then of its session alone: what was there before keeps its parents, and is
// neither waited for nor ended.
func Reexec() (int, error) {
	if err := CheckCapacity(); err != nil {
		return 0, err
	}
	MakeThreads(FewBlocked) // the session may use up what there can be
	runtime.LockOSThread()  // the child dies with the thread that made it (PR_SET_PDEATHSIG)
	defer runtime.UnlockOSThread()
	sup := Watch()
	pid, err := syscall.ForkExec("/proc/self/exe", os.Args, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2}, Sys: &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return 0, fmt.Errorf("start toolguard apart from its caller's children: %w", err)
	}
	sup.SetPID(pid)
	go sup.Forward()
	end := sup.Wait(pid, nil)
	return ExitCode(end.Status), end.Err
}
