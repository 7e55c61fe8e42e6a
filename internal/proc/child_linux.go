package proc

import (
	"errors"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Child is a child process in a session and a process group of its own. Its exit status isn't lost if another goroutine reaps all children of
// this process, as long as that one calls Reaped.
type Child struct {
	PID    int
	pidfd  int
	status chan syscall.WaitStatus
}

// children are the running ones. The lock is held while one starts, so that Reaped finds it.
var children = struct {
	sync.Mutex
	status map[int]chan syscall.WaitStatus
}{status: map[int]chan syscall.WaitStatus{}}

// starts lets one child start at a time, so that Reaped waits for one of them and not for all.
var starts sync.Mutex

// StartChild starts a program. The attributes' Sys is its own. Who starts a child has to call Wait.
func StartChild(path string, argv []string, attr syscall.ProcAttr) (*Child, error) {
	c := &Child{pidfd: -1}
	attr.Sys = &syscall.SysProcAttr{Setsid: true, PidFD: &c.pidfd}
	starts.Lock()
	defer starts.Unlock()
	children.Lock()
	defer children.Unlock()
	pid, _, err := syscall.StartProcess(path, argv, &attr)
	if err != nil {
		return nil, &os.PathError{Op: "start", Path: path, Err: err}
	}
	status := make(chan syscall.WaitStatus, 1)
	c.PID, c.status, children.status[pid] = pid, status, status
	return c, nil
}

// Reaped reports the status of a process that was reaped because all children were. A process that is no Child is ignored.
func Reaped(pid int, status syscall.WaitStatus) {
	if !status.Exited() && !status.Signaled() {
		return
	}
	children.Lock()
	defer children.Unlock()
	if c := children.status[pid]; c != nil {
		delete(children.status, pid)
		c <- status
	}
}

// lostAfter is how long Wait waits for Reaped.
const lostAfter = 3 * time.Second

// Wait waits until the process has ended. It may be called once.
func (c *Child) Wait() (syscall.WaitStatus, error) {
	if c.pidfd >= 0 { // else the kernel is older than Linux 5.4
		defer unix.Close(c.pidfd)
		for unix.Waitid(unix.P_PIDFD, c.pidfd, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
		}
		c.KillGroup() // while its number isn't used again
	}
	for {
		var ws syscall.WaitStatus
		_, err := syscall.Wait4(c.PID, &ws, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err == nil:
			c.forget()
			return ws, nil
		}
		select {
		case ws = <-c.status:
			return ws, nil
		case <-time.After(lostAfter):
			c.forget()
			return 0, os.NewSyscallError("wait4", err)
		}
	}
}

// forget removes the child from those that Reaped reports to.
func (c *Child) forget() {
	children.Lock()
	defer children.Unlock()
	if children.status[c.PID] == c.status {
		delete(children.status, c.PID)
	}
}

// KillGroup kills all processes of the child's group. The kernel assigns numbers in turn, so that the group's isn't used again as soon as it's free.
func (c *Child) KillGroup() { _ = unix.Kill(-c.PID, unix.SIGKILL) }
