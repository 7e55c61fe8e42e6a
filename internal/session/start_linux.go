package session

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// command is all that starting the first process takes, decided beforehand, so that the restricted thread only acts.
type command struct {
	path    string
	argv    []string
	env     []string
	files   []uintptr
	plan    *landlock.Plan
	filters []seccomp.Filter
	keep    []string // capabilities
	before  func() error
	stopped func(pid int) error // limits to set while the command waits at its first instruction; nil: none
}

// startError tells a failure to prepare from the kernel's refusal to execute the command.
type startError struct {
	doing string
	err   error
}

func (e *startError) Error() string { return e.doing + ": " + e.err.Error() }
func (e *startError) Unwrap() error { return e.err }

func (c *command) onThisThread() (pid int, err error) {
	steps := []struct {
		doing string
		do    func() error
	}{
		{"find a thread for the session", laterThread},
		{"mark the session for the audit records", c.before},
		{"set no_new_privs", func() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }},
		{"drop the capabilities", func() error { return dropCapabilities(c.keep) }},
		{"apply the landlock rules", c.plan.Apply},
		{"load the system call filters", func() error { return seccomp.Load(c.filters) }},
		{"check that the system call filters are in force", checkFilterMode},
	}
	for _, s := range steps {
		if s.do == nil {
			continue
		}
		if err := s.do(); err != nil {
			return 0, &startError{s.doing, err}
		}
	}
	return c.fork()
}

// laterThread refuses the process's first thread (see onLaterThread).
func laterThread() error {
	if unix.Gettid() == os.Getpid() {
		return errors.New("it's toolguard's first")
	}
	return nil
}

// checkFilterMode asks the kernel, not the library: PR_GET_SECCOMP is 2 only when a filter is in force.
func checkFilterMode() error {
	mode, err := unix.PrctlRetInt(unix.PR_GET_SECCOMP, 0, 0, 0, 0)
	if err == nil && mode != unix.SECCOMP_MODE_FILTER {
		err = fmt.Errorf("the kernel says seccomp mode %d", mode)
	}
	return err
}

func (c *command) fork() (pid int, err error) {
	pid, err = syscall.ForkExec(c.path, c.argv, &syscall.ProcAttr{
		Env:   c.env,
		Files: c.files,
		Sys: &syscall.SysProcAttr{
			Pdeathsig: syscall.SIGKILL,
			Ptrace:    c.stopped != nil,
		},
	})
	if err != nil || c.stopped == nil {
		return pid, err
	}
	if err := c.limitAndRelease(pid); err != nil {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		_, _ = syscall.Wait4(pid, nil, 0, nil)
		return 0, &startError{"set the limits", err}
	}
	return pid, nil
}

// limitAndRelease waits until the traced command has been loaded and stands before its first instruction, sets its
// limits, and lets it go.
func (c *command) limitAndRelease(pid int) error {
	var ws syscall.WaitStatus
	if err := retry(func() error { _, err := syscall.Wait4(pid, &ws, 0, nil); return err }); err != nil {
		return err
	}
	if !ws.Stopped() || ws.StopSignal() != syscall.SIGTRAP {
		return fmt.Errorf("the command ended before it began (%#x)", uint32(ws))
	}
	limited := make(chan error)
	go func() { limited <- c.stopped(pid) }() // on another thread: this one is restricted already
	if err := <-limited; err != nil {
		return err
	}
	return syscall.PtraceDetach(pid)
}

func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// files are the descriptors that the command gets: 0, 1, 2 and those passed on, under their own numbers.
func files(pass []int) ([]uintptr, error) {
	fds := []uintptr{0, 1, 2}
	for _, fd := range pass {
		if fd < 3 || fd > 1<<16 {
			return nil, fmt.Errorf("descriptor %d can't be passed on: give a number from 3 to 65536", fd)
		}
		// What toolguard was given has survived an execve; what it opened itself is closed by one, and isn't for the command.
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC != 0 {
			return nil, fmt.Errorf("descriptor %d can't be passed on: it isn't open", fd)
		}
		for len(fds) <= fd {
			fds = append(fds, ^uintptr(0))
		}
		fds[fd] = uintptr(fd)
	}
	return fds, nil
}

// closeInherited makes every descriptor beyond 2 close when a command is executed, whatever toolguard's caller left
// open (close_range(2), Linux 5.9; CLOSE_RANGE_CLOEXEC 5.11, older than any Landlock).
func closeInherited() error {
	err := unix.CloseRange(3, ^uint(0)>>1, unix.CLOSE_RANGE_CLOEXEC)
	return os.NewSyscallError("close_range", err)
}
