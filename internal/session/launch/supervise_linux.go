package launch

import (
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/proc"
)

// forwarded are the signals that processes send to each other and that a program may expect. SIGTSTP is caught so that toolguard stops after the
// command has stopped. SIGTTIN and SIGTTOU always stop a whole group, and SIGCONT continues toolguard, which then continues the command. Catching
// one costs 40 µs, so there are no others.
var forwarded = []os.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH,
	syscall.SIGTSTP,
}

// Exit is how the first process ended.
type Exit struct {
	Status syscall.WaitStatus
	Usage  syscall.Rusage
	Err    error
}

// Supervisor watches the first process.
type Supervisor struct {
	signals chan os.Signal

	awake bool // never stop: the wall time is limited (see StayAwake)

	mu      sync.Mutex
	pid     int           // 0: not started, or reaped
	command *proc.Process // the command's own process, if the first process is its wrapper
}

// Watch begins to catch signals. Call it before the command starts, so that no signal is lost. It takes half a millisecond, mostly waiting for a
// thread of the runtime. Signals that toolguard's caller ignores (nohup) stay ignored, for the command, too.
func Watch() *Supervisor {
	s := &Supervisor{signals: make(chan os.Signal, 64)}
	for _, sig := range forwarded {
		if !signal.Ignored(sig) {
			signal.Notify(s.signals, sig)
		}
	}
	// A closed pipe must not end toolguard before the session. Writes fail with EPIPE instead.
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	return s
}

// StayAwake prevents the terminal from stopping toolguard: it stops the whole process group of a process that reads from the background, and
// the command can choose the foreground group. The signals are caught until the command starts, which would inherit ignored signals.
func (s *Supervisor) StayAwake() {
	s.awake = true
	for _, sig := range []os.Signal{syscall.SIGTTIN, syscall.SIGTTOU} {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// IgnoreTerminal ignores the terminal's stop signals after the command has started: with a caught signal, a write to the terminal would be
// restarted forever.
func (s *Supervisor) IgnoreTerminal() { signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU) }

// Forward passes signals to the command.
func (s *Supervisor) Forward() {
	for sig := range s.signals {
		sig := sig.(syscall.Signal)
		if !fromTerminal(sig) {
			s.kill(sig)
		}
	}
}

// AllowOutput lets toolguard write to the terminal from the background after the command has ended. Signals stay caught, because the orphans must
// be ended first.
func (s *Supervisor) AllowOutput() { signal.Ignore(syscall.SIGTTOU) }

func (s *Supervisor) SetPID(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// SetCommand sets the process that gets the signals if the first one is its wrapper, which would end without passing them on.
func (s *Supervisor) SetCommand(p *proc.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.command = p
}

// kill signals the first process unless it was reaped: its PID may be reused.
func (s *Supervisor) kill(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid != 0 && s.command != nil {
		_ = s.command.Signal(sig)
	}
	if s.pid != 0 && (s.command == nil || sig == syscall.SIGCONT) {
		_ = syscall.Kill(s.pid, sig)
	}
}

// fromTerminal reports whether sig has reached the command already: the terminal sends these to its whole foreground group, which includes the
// command.
func fromTerminal(sig syscall.Signal) bool {
	switch sig {
	case syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTSTP, syscall.SIGWINCH:
	default:
		return false
	}
	tty, err := unix.Open("/dev/tty", unix.O_RDONLY|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer unix.Close(tty)
	group, err := unix.IoctlGetInt(tty, unix.TIOCGPGRP)
	return err == nil && group == syscall.Getpgrp()
}

// Wait waits for the first process and stops with it. When unkillable is closed, the process counts as killed: SIGKILL doesn't end processes that
// trace each other and stop at exit (PTRACE_O_TRACEEXIT), nor one that waits for a failed disk.
func (s *Supervisor) Wait(pid int, unkillable <-chan struct{}) Exit {
	ended := make(chan Exit, 1)
	go func() { ended <- s.await(pid) }()
	if s.command != nil {
		done := make(chan struct{})
		defer close(done)
		go s.stopWithWrapped(done)
	}
	select {
	case e := <-ended:
		return e
	case <-unkillable:
		s.SetPID(0)
		return Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}
	}
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
func (s *Supervisor) stopWithWrapped(done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		case <-time.After(100 * time.Millisecond):
		}
		if !s.awake && proc.IsStopped(s.command.PID) && s.command.Alive() == nil {
			s.stopWithCommand(s.command.PID)
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

// ExitCode returns the exit status as a shell reports it.
func ExitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
