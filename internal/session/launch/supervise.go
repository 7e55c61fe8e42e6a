package launch

import (
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Grace is the time between SIGTERM and SIGKILL for orphans. Patience is how long toolguard then waits for processes that the kernel can't kill at
// once (uninterruptible sleep).
const (
	Grace    = 2 * time.Second
	Patience = 5 * time.Second
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
	pid     int      // 0: not started, or reaped
	wrapper int      // the process of the wrapper until the command is executed; 0: none
	command signaled // the command's own process, if the first process is its wrapper; nil: it isn't
}

// signaled is a process that gets signals.
type signaled interface {
	Signal(sig syscall.Signal) error
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
		if s.starting() || !fromTerminal(sig) {
			s.kill(sig)
		}
	}
}

// starting reports that a wrapper hasn't executed the command yet: it doesn't get the terminal's signals.
func (s *Supervisor) starting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wrapper != 0
}

// AllowOutput lets toolguard write to the terminal from the background after the command has ended. Signals stay caught, because the orphans must
// be ended first.
func (s *Supervisor) AllowOutput() { signal.Ignore(syscall.SIGTTOU) }

func (s *Supervisor) SetPID(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// SetWrapper sets the process of a wrapper that hasn't executed the command yet: a signal that would end the command ends the start. With 0, the start
// has failed.
func (s *Supervisor) SetWrapper(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrapper, s.pid, s.command = pid, 0, nil
}

// SetWrapped sets the first process to a wrapper, which would end without passing signals on, and the process that gets them.
func (s *Supervisor) SetWrapped(wrapper int, command signaled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrapper, s.pid, s.command = 0, wrapper, command
}

// kill signals the first process unless it was reaped: its PID may be reused.
func (s *Supervisor) kill(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch sig {
	case syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM:
		if s.wrapper != 0 {
			_ = syscall.Kill(s.wrapper, syscall.SIGKILL)
		}
	}
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

// orUnkillable returns what wait returns. When unkillable is closed, the process counts as killed: SIGKILL doesn't end processes that trace each
// other and stop at exit (PTRACE_O_TRACEEXIT), nor one that waits for a failed disk.
func (s *Supervisor) orUnkillable(unkillable <-chan struct{}, wait func() Exit) Exit {
	ended := make(chan Exit, 1)
	go func() { ended <- wait() }()
	select {
	case e := <-ended:
		return e
	case <-unkillable:
		s.SetPID(0)
		return Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}
	}
}

// ExitCode returns the exit status as a shell reports it.
func ExitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
