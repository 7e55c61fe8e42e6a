package launch

import (
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/proc"
)

// Wait waits for the first process and stops with it. When unkillable is closed, the process counts as killed.
func (s *Supervisor) Wait(pid int, unkillable <-chan struct{}) Exit {
	if p, ok := s.command.(*proc.Process); ok {
		done := make(chan struct{})
		defer close(done)
		go s.stopWithWrapped(p, done)
	}
	return s.orUnkillable(unkillable, func() Exit { return s.await(pid) })
}

// await waits for the first process, and reaps others that end meanwhile.
func (s *Supervisor) await(pid int) Exit {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		got, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, &ru)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return Exit{Err: os.NewSyscallError("wait4", err)}
		case got == pid && ws.Stopped():
			s.stopWithCommand(pid)
		case got == pid:
			s.SetPID(0)
			return Exit{Status: ws, Usage: ru}
		default:
			proc.Reaped(got, ws)
		}
	}
}

// stopWithCommand stops toolguard when the command has stopped, so that the shell sees the job stop, and continues the command when toolguard is
// continued. If both were continued meanwhile it does nothing. In a session with a limited wall time toolguard never stops, because it must end
// the session.
func (s *Supervisor) stopWithCommand(pid int) {
	if s.awake {
		return
	}
	// A signal to this thread stops it before the call returns. If another thread got the signal, this one could continue the command too early.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for {
		time.Sleep(10 * time.Millisecond)
		if !proc.IsStopped(pid) {
			return
		}
		_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
		switch sinceStop(pid) {
		case unchanged:
			s.kill(syscall.SIGCONT)
			return
		case continued:
			return
		}
	}
}

// stopWithWrapped is stopWithCommand for a command within a wrapper: it's no child of toolguard's, so its state is read now and then.
func (s *Supervisor) stopWithWrapped(command *proc.Process, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(100 * time.Millisecond):
		}
		if !s.awake && proc.IsStopped(command.PID) && command.Alive() == nil {
			s.stopWithCommand(command.PID)
		}
	}
}

// stopChange is the state of a process that had stopped, as of its last change.
type stopChange uint8

const (
	unchanged stopChange = iota // it's in the same stop
	continued
	stoppedAgain // it was continued and has stopped again
)

// sinceStop returns the change of a stopped child since its last change was waited for. A shell continues the whole process group: when
// toolguard runs again, the command may have been continued before, and have been stopped again by the user. Continuing it then would undo
// that stop.
func sinceStop(pid int) stopChange {
	const cldContinued = 6 // CLD_CONTINUED
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WSTOPPED|unix.WCONTINUED|unix.WNOHANG, nil)
	switch {
	case err != nil || info.Signo == 0:
		return unchanged
	case info.Code == cldContinued:
		return continued
	}
	return stoppedAgain
}
