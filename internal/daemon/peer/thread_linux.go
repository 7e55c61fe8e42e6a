package peer

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/proc"
)

var (
	// ErrNoThread is the error for a thread that doesn't exist.
	ErrNoThread = errors.New("no such thread")
	// ErrPrivileges is the error for a thread that could gain privileges by a program (set-user-ID, capabilities).
	ErrPrivileges = errors.New("no_new_privs is not set")
)

// ThreadOf translates a thread ID of a process's own PID namespace into one of toolguardd's. The kernel lists both (NSpid in
// proc_pid_status(5), Linux 4.1): the last is the one in the innermost namespace.
func ThreadOf(pid, own int) (int, error) {
	dir, name := fmt.Sprintf("/proc/%d/task", pid), strconv.Itoa(own)
	if innermostID(dir, name) == name { // no other thread of the process has this ID: all are in one PID namespace
		return own, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, fmt.Errorf("%w: process %d has ended", ErrNoThread, pid)
	}
	for _, e := range entries {
		if innermostID(dir, e.Name()) == name {
			return strconv.Atoi(e.Name())
		}
	}
	return 0, fmt.Errorf("%w: process %d has no thread %d in its PID namespace", ErrNoThread, pid, own)
}

// innermostID is a thread's ID in its own PID namespace; "": it has ended.
func innermostID(dir, name string) string {
	status, err := os.ReadFile(dir + "/" + name + "/status")
	if err != nil {
		return ""
	}
	if _, line, ok := strings.Cut(string(status), "\nNSpid:\t"); ok {
		line, _, _ = strings.Cut(line, "\n")
		names := strings.Fields(line)
		return names[len(names)-1]
	}
	return name
}

// RequireNoNewPrivs returns an error for a thread without no_new_privs: a set-user-ID program that it executes would run under a policy that
// its caller has chosen. The kernel never clears no_new_privs, and every child inherits it.
func RequireNoNewPrivs(pid, thread int) error {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, thread))
	switch {
	case err != nil:
		return fmt.Errorf("%w: process %d has no thread %d", ErrNoThread, pid, thread)
	case !bytes.Contains(status, []byte("\nNoNewPrivs:\t1\n")):
		return fmt.Errorf("%w for thread %d: a session can't execute programs that gain privileges (set-user-ID, capabilities)", ErrPrivileges, thread)
	}
	return nil
}

// TerminalOf is the terminal of a process's standard streams, or "". hidden reports that its controlling terminal is another one.
func TerminalOf(pid int) (name string, hidden bool) {
	for fd := range 3 {
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd))
		if err == nil && (strings.HasPrefix(name, "/dev/pts/") || strings.HasPrefix(name, "/dev/tty")) {
			return name, false
		}
	}
	nr, err := proc.Stat(pid, 7)
	return "", err == nil && nr != 0
}
