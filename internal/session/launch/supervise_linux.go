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

// passed are the signals that a program may expect to receive and that don't come from a fault of its own. SIGTSTP is caught so
// that toolguard stops when the command has stopped, and not before; SIGTTIN and SIGTTOU always stop a whole group, and
// SIGCONT continues toolguard, which then continues the command. Catching one costs 40 µs, so there are no others.
var passed = []os.Signal{
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

	awake bool // never stop: somebody must watch the clock (see stayAwake)

	mu  sync.Mutex
	pid int // 0: not started, or reaped
}

// Watch starts to catch signals. It must run before the command is started, so that a signal in between isn't lost. It takes
// half a millisecond, most of it in waiting for a thread of the runtime.
// Signals that toolguard was told to ignore (nohup) stay ignored, for the command too.
func Watch() *Supervisor {
	s := &Supervisor{signals: make(chan os.Signal, 64)}
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(s.signals, sig)
		}
	}
	// A reader that went away must not end toolguard before the session has ended; its writes fail with EPIPE instead.
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	return s
}

// StayAwake keeps the terminal from stopping toolguard: it stops the whole group of a process that reads it from the background,
// and which group that is, the command can choose. Until the command has been started the signals are caught, since it
// would inherit that they are ignored.
func (s *Supervisor) StayAwake() {
	s.awake = true
	for _, sig := range []os.Signal{syscall.SIGTTIN, syscall.SIGTTOU} {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// IgnoreTerminal is for when the command has been started: a write that is refused by a signal that is caught would be repeated
// for ever.
func (s *Supervisor) IgnoreTerminal() { signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU) }

// Forward passes signals on.
func (s *Supervisor) Forward() {
	for sig := range s.signals {
		sig := sig.(syscall.Signal)
		if !fromTerminal(sig) {
			s.kill(sig)
		}
	}
}

// Quiet is for when the command has ended: there's nobody to pass signals on to, and what toolguard still has to say may be
// written from the background. Signals stay caught, since what is left must be ended in order.
func (s *Supervisor) Quiet() { signal.Ignore(syscall.SIGTTOU) }

func (s *Supervisor) SetPID(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// kill signals the first process, never one that has taken its number since.
func (s *Supervisor) kill(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pid != 0 {
		_ = syscall.Kill(s.pid, sig)
	}
}

// fromTerminal says whether sig has reached the command already: the terminal sends these to its whole foreground
// group, to which the command belongs too.
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

// Wait waits for the first process and stops with it. When it's said to be hopeless, as it was killed and doesn't end, it counts as killed:
// processes of which each traces the other, to stop it as it ends (PTRACE_O_TRACEEXIT), no signal ends, nor one that waits for a dead disk.
func (s *Supervisor) Wait(pid int, hopeless <-chan struct{}) Exit {
	ended := make(chan Exit, 1)
	go func() { ended <- s.await(pid) }()
	select {
	case e := <-ended:
		return e
	case <-hopeless:
		s.SetPID(0)
		return Exit{Status: syscall.WaitStatus(syscall.SIGKILL)}
	}
}

// await waits for the first process, reaping what else ends meanwhile.
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
			s.stopToo(pid)
		case got == pid:
			s.SetPID(0)
			return Exit{Status: ws, Usage: ru}
		}
	}
}

// stopToo stops toolguard when the command has stopped, so that the shell sees its job stopped, and continues the command
// when toolguard is continued. When both were continued in the meantime there is nothing to do.
// A session whose time is limited goes on: a stopped toolguard couldn't end it.
func (s *Supervisor) stopToo(pid int) {
	if s.awake {
		return
	}
	time.Sleep(10 * time.Millisecond)
	if !proc.IsStopped(pid) {
		return
	}
	// Sent to this very thread, it stops before the call returns; sent to the process, another thread may take it, and this
	// one continue the command too early.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	_ = unix.Tgkill(os.Getpid(), unix.Gettid(), unix.SIGSTOP)
	s.kill(syscall.SIGCONT)
}

// ExitCode is the status that a shell would report.
func ExitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
