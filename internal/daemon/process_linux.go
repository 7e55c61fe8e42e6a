package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// process is a process that can't be taken for another one with the same number.
type process struct {
	pid   int
	start uint64 // when it began, in the clock ticks since boot of /proc/PID/stat
	fd    int
	file  *os.File // fd's: to wait for, and to close
}

// openProcess finds a process by its number. start, unless 0, says which one is meant.
func openProcess(pid int, start uint64) (*process, error) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK) // Linux 5.10; without the flag the runtime's poller can't wait for it
	if err != nil {
		return nil, fmt.Errorf("find process %d: %w", pid, err)
	}
	return newProcess(pid, fd, start)
}

func newProcess(pid, fd int, start uint64) (*process, error) {
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	p := &process{pid: pid, fd: fd, file: os.NewFile(uintptr(fd), "pidfd")}
	began, err := startOf(pid)
	if err == nil {
		p.start, err = began, p.alive() // it was that process's, if it's still there after
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

func startOf(pid int) (uint64, error) { return statOf(pid, 22) }

// statOf is a field of /proc/PID/stat, the third or a later one; the second, in parentheses, may hold anything (proc_pid_stat(5)).
func statOf(pid, field int) (uint64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	f := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(f) <= field-3 {
		return 0, fmt.Errorf("/proc/%d/stat is too short", pid)
	}
	return strconv.ParseUint(string(f[field-3]), 10, 64)
}

// threadOf is a thread of a process by the number that toolguardd knows it by, which is another one than the process does where that is in
// a PID namespace within toolguardd's. The kernel lists both (NSpid in proc_pid_status(5), Linux 4.1): the last is the thread's own.
func threadOf(pid, own int) (int, error) {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, refuse(409, "process %d has ended", pid)
	}
	for _, e := range entries {
		status, err := os.ReadFile(dir + "/" + e.Name() + "/status")
		if err != nil {
			continue // it has ended
		}
		names := []string{e.Name()}
		if _, line, ok := strings.Cut(string(status), "\nNSpid:\t"); ok {
			line, _, _ = strings.Cut(line, "\n")
			names = strings.Fields(line)
		}
		if names[len(names)-1] == strconv.Itoa(own) {
			return strconv.Atoi(e.Name())
		}
	}
	return 0, refuse(409, "process %d has no thread %d in its PID namespace", pid, own)
}

// noNewPrivs refuses a thread that could gain rights by a program (set-user-ID, capabilities), which would then run under a policy of its
// caller's. What a thread has given up it can't get back, and it passes it on to all that it starts.
func noNewPrivs(pid, thread int) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, thread))
	switch {
	case err != nil:
		return refuse(409, "process %d has no thread %d", pid, thread)
	case !bytes.Contains(status, []byte("\nNoNewPrivs:\t1\n")):
		return refuse(403, "thread %d has not set no_new_privs: programs that give their caller other rights (set-user-ID) aren't for sessions", thread)
	}
	return nil
}

// terminalOf is the terminal that one of a process's three standard streams is, or ""; hidden says that it has another one.
func terminalOf(pid int) (name string, hidden bool) {
	for fd := range 3 {
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if err == nil && (strings.HasPrefix(name, "/dev/pts/") || strings.HasPrefix(name, "/dev/tty")) {
			return name, false
		}
	}
	nr, err := statOf(pid, 7)
	return "", err == nil && nr != 0
}

// ended is a process that isn't there any more.
func ended(pid int) *process { return &process{pid: pid, fd: -1} }

func (p *process) close() {
	if p.file != nil {
		_ = p.file.Close()
	}
}

// alive is nil as long as the process hasn't ended.
func (p *process) alive() error { return p.signal(0) }

func (p *process) signal(sig unix.Signal) error {
	return unix.PidfdSendSignal(p.fd, sig, nil, 0)
}

// wait returns when the process has ended, or is closed.
func (p *process) wait() {
	if p.file == nil {
		return
	}
	conn, err := p.file.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Read(func(fd uintptr) bool { return hasEnded(int(fd)) })
}

// hasEnded reports whether a process has ended, by its pidfd. A process that nobody has waited for has ended, while signals still reach it.
func hasEnded(pidfd int) bool {
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	return n > 0 && err == nil
}

// descends reports whether a process has an ancestor of a kind. known is false where it has ended.
func descends(pid int, from func(pid int) bool) (is, known bool) {
	for range 10 { // its ancestors can end meanwhile
		is, err := hasAncestor(pid, from)
		if err == nil {
			return is, true
		}
	}
	return false, false
}

// hasAncestor is descends as long as nobody among the ancestors ends. Another process can get the number of one that has ended: so a
// parent counts that its child still has after it was looked at.
func hasAncestor(pid int, from func(pid int) bool) (bool, error) {
	parent, err := parentOf(pid)
	for err == nil && parent > 1 && !from(parent) {
		grandparent, gone := parentOf(parent)
		still, ended := parentOf(pid)
		if err = errors.Join(gone, ended); err == nil && still != parent {
			err = unix.ESRCH
		}
		pid, parent = parent, grandparent
	}
	return parent > 1, err
}

func parentOf(pid int) (int, error) {
	parent, err := statOf(pid, 4)
	return int(parent), err
}
