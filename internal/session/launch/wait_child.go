package launch

import (
	"os"
	"os/signal"
	"syscall"
)

// WaitChild is Wait where the other children of this process belong to other parts of it, and where there are neither subreapers nor /proc (macOS).
func (s *Supervisor) WaitChild(pid int, unkillable <-chan struct{}) Exit {
	return s.orUnkillable(unkillable, func() Exit { return s.awaitChild(pid) })
}

func (s *Supervisor) awaitChild(pid int) Exit {
	continued := make(chan os.Signal, 1)
	if !s.awake {
		signal.Notify(continued, syscall.SIGCONT)
		defer signal.Stop(continued)
	}
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		_, err := syscall.Wait4(pid, &ws, syscall.WUNTRACED, &ru)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return Exit{Err: os.NewSyscallError("wait4", err)}
		case ws.Stopped() && !s.awake:
			s.stopThenContinue(continued)
		case !ws.Stopped():
			s.SetPID(0)
			return Exit{Status: ws, Usage: ru}
		}
	}
}

// stopThenContinue stops toolguard, so that the shell sees the job stop, until a signal continues it, and then continues the command. A shell
// continues the whole process group, and continuing the command twice changes nothing.
func (s *Supervisor) stopThenContinue(continued chan os.Signal) {
	select {
	case <-continued: // an earlier one
	default:
	}
	if syscall.Kill(os.Getpid(), syscall.SIGSTOP) == nil {
		<-continued
	}
	s.kill(syscall.SIGCONT)
}
