package peer

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A thread that hasn't set no_new_privs is rejected, whatever the other threads of its process have set.
func TestNoNewPrivs(t *testing.T) {
	if set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || set != 0 {
		t.Skip("needs a process that hasn't set no_new_privs")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	plain := unix.Gettid()
	err := childtest.Thread(func() error {
		for thread, want := range map[int]error{unix.Gettid(): nil, plain: ErrPrivileges, 1<<22 + 1: ErrNoThread} {
			if err := RequireNoNewPrivs(os.Getpid(), thread); !errors.Is(err, want) {
				t.Errorf("thread %d: %v, want %v", thread, err, want)
			}
		}
		return nil
	})
	childtest.Must(t, err)
}

// A thread in a PID namespace of its own is found by the number that it has there, and by no other.
func TestThreadOf(t *testing.T) {
	python, err := exec.LookPath("/usr/bin/python3")
	if os.Geteuid() != 0 || err != nil {
		t.Skip("needs root and python3")
	}
	const script = `import sys, threading
t = threading.Thread(target=lambda: (print(threading.get_native_id(), flush=True), sys.stdin.read()))
t.start(); t.join()`
	for _, flags := range []uintptr{0, unix.CLONE_NEWPID} {
		cmd := exec.Command(python, "-c", script)
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		stdin, err := cmd.StdinPipe()
		childtest.Must(t, err)
		stdout, err := cmd.StdoutPipe()
		childtest.Must(t, err)
		childtest.Must(t, cmd.Start())
		var own int
		_, err = fmt.Fscan(stdout, &own)
		childtest.Must(t, err)
		got, err := ThreadOf(cmd.Process.Pid, own)
		if err != nil || got == cmd.Process.Pid || (got == own) != (flags == 0) {
			t.Errorf("flags %#x: thread %d of process %d is %d, %v", flags, own, cmd.Process.Pid, got, err)
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", cmd.Process.Pid, got)); err != nil {
			t.Error(err)
		}
		for _, none := range []int{0, -1, 1 << 22} {
			if got, err := ThreadOf(cmd.Process.Pid, none); err == nil {
				t.Errorf("thread %d is %d", none, got)
			}
		}
		if flags != 0 {
			if other, err := ThreadOf(cmd.Process.Pid, got); err == nil {
				t.Errorf("by a number of another namespace, %d, it's %d", got, other)
			}
			if first, err := ThreadOf(cmd.Process.Pid, 1); err != nil || first != cmd.Process.Pid {
				t.Errorf("the first thread is %d, %v", first, err)
			}
		}
		childtest.Must(t, stdin.Close())
		childtest.Must(t, cmd.Wait())
	}
}
