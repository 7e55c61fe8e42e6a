package session

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

// ending is how the first process ended.
type ending struct {
	ws    syscall.WaitStatus
	usage syscall.Rusage
	err   error
}

// supervisor watches the first process.
type supervisor struct {
	signals chan os.Signal

	awake bool // never stop: somebody must watch the clock (see stayAwake)

	mu  sync.Mutex
	pid int // 0: not started, or reaped
}

// watch starts to catch signals. It must run before the command is started, so that a signal in between isn't lost. It takes
// half a millisecond, most of it in waiting for a thread of the runtime.
// Signals that toolguard was told to ignore (nohup) stay ignored, for the command too.
func watch() (*supervisor, error) {
	s := &supervisor{signals: make(chan os.Signal, 64)}
	for _, sig := range passed {
		if !signal.Ignored(sig) {
			signal.Notify(s.signals, sig)
		}
	}
	// A reader that went away must not end toolguard before the session has ended; its writes fail with EPIPE instead.
	if !signal.Ignored(syscall.SIGPIPE) {
		signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	}
	return s, nil
}

// stayAwake keeps the terminal from stopping toolguard: it stops the whole group of a process that reads it from the background,
// and which group that is, the command can choose. Until the command has been started the signals are caught, since it
// would inherit that they are ignored.
func (s *supervisor) stayAwake() {
	s.awake = true
	for _, sig := range []os.Signal{syscall.SIGTTIN, syscall.SIGTTOU} {
		if !signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
}

// ignoreTerminal is for when the command has been started: a write that is refused by a signal that is caught would be repeated
// for ever.
func (s *supervisor) ignoreTerminal() { signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU) }

// forward passes signals on.
func (s *supervisor) forward() {
	for sig := range s.signals {
		sig := sig.(syscall.Signal)
		if !fromTerminal(sig) {
			s.kill(sig)
		}
	}
}

// quiet is for when the command has ended: there's nobody to pass signals on to, and what toolguard still has to say may be
// written from the background. Signals stay caught, since what is left must be ended in order.
func (s *supervisor) quiet() { signal.Ignore(syscall.SIGTTOU) }

func (s *supervisor) set(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pid = pid
}

// kill signals the first process, never one that has taken its number since.
func (s *supervisor) kill(sig syscall.Signal) {
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

// wait waits for the first process and stops with it. When it's said to be hopeless, as it was killed and doesn't end, it counts as killed:
// processes of which each traces the other, to stop it as it ends (PTRACE_O_TRACEEXIT), no signal ends, nor one that waits for a dead disk.
func (s *supervisor) wait(pid int, hopeless <-chan struct{}) ending {
	ended := make(chan ending, 1)
	go func() { ended <- s.await(pid) }()
	select {
	case e := <-ended:
		return e
	case <-hopeless:
		s.set(0)
		return ending{ws: syscall.WaitStatus(syscall.SIGKILL)}
	}
}

// await waits for the first process, reaping what else ends meanwhile.
func (s *supervisor) await(pid int) ending {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		got, err := syscall.Wait4(-1, &ws, syscall.WUNTRACED, &ru)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return ending{err: os.NewSyscallError("wait4", err)}
		case got == pid && ws.Stopped():
			s.stopToo(pid)
		case got == pid:
			s.set(0)
			return ending{ws: ws, usage: ru}
		}
	}
}

// stopToo stops toolguard when the command has stopped, so that the shell sees its job stopped, and continues the command
// when toolguard is continued. When both were continued in the meantime there is nothing to do.
// A session whose time is limited goes on: a stopped toolguard couldn't end it.
func (s *supervisor) stopToo(pid int) {
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

// exitCode is the status that a shell would report.
func exitCode(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}
