package daemon

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/proc"
)

// threadOf is a thread of a process by the number that toolguardd knows it by, which is another one than the process does where that is in
// a PID namespace within toolguardd's. The kernel lists both (NSpid in proc_pid_status(5), Linux 4.1): the last is the thread's own.
func threadOf(pid, own int) (int, error) {
	dir, name := fmt.Sprintf("/proc/%d/task", pid), strconv.Itoa(own)
	if calledThere(dir, name) == name { // no other of its threads is called the same: all are in one PID namespace
		return own, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, refuse(409, "process %d has ended", pid)
	}
	for _, e := range entries {
		if calledThere(dir, e.Name()) == name {
			return strconv.Atoi(e.Name())
		}
	}
	return 0, refuse(409, "process %d has no thread %d in its PID namespace", pid, own)
}

// calledThere is the number that a thread has in its own PID namespace; "": it has ended.
func calledThere(dir, name string) string {
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
	nr, err := proc.Stat(pid, 7)
	return "", err == nil && nr != 0
}
