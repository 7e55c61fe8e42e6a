package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Process identifies a process, also after its pid was reused.
type Process struct {
	PID   int
	Start uint64 // when it began, in the clock ticks since boot of /proc/PID/stat
	FD    int
	file  *os.File // FD's: to wait for, and to close
}

// Open opens a process by its pid. It fails if the process didn't begin at start, unless that is 0.
func Open(pid int, start uint64) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK) // Linux 5.10; without the flag the runtime's poller can't wait for it
	if err != nil {
		return nil, fmt.Errorf("find process %d: %w", pid, err)
	}
	return New(pid, fd, start)
}

func New(pid, fd int, start uint64) (*Process, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &Process{PID: pid, FD: fd, file: os.NewFile(uintptr(fd), "pidfd")}
	began, err := StartTicks(pid)
	if err == nil {
		p.Start, err = began, p.Alive() // it was that process's, if it's still there after
	}
	if err == nil && start != 0 && start != began {
		err = fmt.Errorf("process %d: %w", pid, unix.ESRCH)
	}
	if err != nil {
		_ = p.file.Close()
		return nil, err
	}
	return p, nil
}

// Ended returns a Process that has ended.
func Ended(pid int) *Process { return &Process{PID: pid, FD: -1} }

func (p *Process) Close() {
	if p.file != nil {
		_ = p.file.Close()
	}
}

// Alive returns an error if the process has ended.
func (p *Process) Alive() error {
	if err := p.Signal(0); !errors.Is(err, unix.EPERM) { // that of another user's process, which the kernel has found
		return err
	}
	return nil
}

func (p *Process) Signal(sig unix.Signal) error {
	return unix.PidfdSendSignal(p.FD, sig, nil, 0)
}

// Wait returns when the process has ended, or is closed.
func (p *Process) Wait() {
	if p.file == nil {
		return
	}
	conn, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool { return HasEnded(int(fd)) })
}

// HasEnded reports whether a process has ended, by its pidfd. A zombie has ended, although it can be signaled.
func HasEnded(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}
