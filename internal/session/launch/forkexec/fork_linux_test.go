package forkexec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

var must = childtest.Must

// The process's first thread can't exit, so no test may run on it.
func init() { runtime.LockOSThread() }

// shell returns a command that runs a script, with standard output and error in one pipe.
func shell(script string, args ...string) *Command {
	return &Command{Path: "/bin/sh", Argv: append([]string{"sh", "-c", script, "sh"}, args...), Env: []string{"PATH=/usr/bin:/bin", "A=b"}}
}

// output starts a command with start on a locked thread, and returns its output and its wait status.
func output(t *testing.T, start func() (int, error)) (string, syscall.WaitStatus) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	err = unix.Dup3(int(w.Fd()), out, unix.O_CLOEXEC)
	w.Close()
	must(t, err)
	pid, err := start()
	unix.Close(out)
	must(t, err)
	text, err := io.ReadAll(r)
	if err != nil {
		t.Error(err)
	}
	return string(text), wait(t, pid)
}

const out = 59

func wait(t *testing.T, pid int) (ws syscall.WaitStatus) {
	t.Helper()
	for {
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err == nil {
			return ws
		} else if err != syscall.EINTR {
			t.Fatal(err)
		}
	}
}

// state is a script that prints what a process has inherited.
const state = `exec >/proc/self/fd/59; grep -E '^(Cap|NoNewPrivs|Seccomp)' /proc/self/status; cat /proc/self/limits; env; echo "$0" "$@"
pwd; umask; ls /proc/self/fd; ps -o pgid=,sid= $$; exit 3`

// TestSameAsForkExec checks that a command has the same limits, environment, descriptors and session as with package syscall.
func TestSameAsForkExec(t *testing.T) {
	c := shell(state, "an argument", "")
	c.Inherit = []int{0, 1, 2, out, 61}
	must(t, unix.Dup3(0, 61, unix.O_CLOEXEC))
	want, wantEnd := output(t, func() (int, error) {
		must(t, unix.CloseRange(3, 1<<20, unix.CLOSE_RANGE_CLOEXEC))
		return bySyscall(c)
	})
	must(t, unix.Dup2(0, 60)) // left open by the caller
	got, end := output(t, c.Start)
	unix.Close(60)
	unix.Close(61)
	if got != want || end != wantEnd || end.ExitStatus() != 3 || !strings.Contains(got, "\n61\n") {
		t.Errorf("%#x: %s\npackage syscall's: %#x: %s", end, got, wantEnd, want)
	}
}

// bySyscall starts a command with package syscall.
func bySyscall(c *Command) (int, error) {
	files := make([]uintptr, 62)
	for fd := range files {
		files[fd] = ^uintptr(0)
	}
	for _, fd := range c.Inherit {
		files[fd] = uintptr(fd)
	}
	return syscall.ForkExec(c.Path, c.Argv, &syscall.ProcAttr{Files: files, Env: c.Env})
}

// TestSignals checks that no signal is blocked, and that only the caller's ignored signals are ignored.
func TestSignals(t *testing.T) {
	signal.Ignore(syscall.SIGUSR1)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR2)
	defer signal.Reset(syscall.SIGUSR1, syscall.SIGUSR2)
	c := &Command{Path: "/bin/sleep", Argv: []string{"sleep", "100"}, Inherit: []int{0, 1, 2}}
	got, want := signals(t, c.Start), signals(t, func() (int, error) { return bySyscall(c) })
	if got != want || ignored(t, got)&(1<<(syscall.SIGUSR1-1)|1<<(syscall.SIGUSR2-1)) != 1<<(syscall.SIGUSR1-1) {
		t.Errorf("%s\npackage syscall's: %s", got, want)
	}
}

// signals returns the kernel's signal masks of a process, and ends it.
func signals(t *testing.T, start func() (int, error)) (lines string) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pid, err := start()
	must(t, err)
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Error(err)
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	wait(t, pid)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "SigBlk") || strings.HasPrefix(line, "SigIgn") {
			lines += line
		}
	}
	return lines
}

// ignored returns the set of ignored signals; the test's parent may ignore some.
func ignored(t *testing.T, lines string) (set uint64) {
	t.Helper()
	_, text, _ := strings.Cut(lines, "SigIgn:")
	if _, err := fmt.Sscanf(text, "%x", &set); err != nil {
		t.Fatalf("%v: %s", err, lines)
	}
	return set
}

// TestFailures checks that a failed call is named unless it is execve, that nothing is executed, and that no child remains.
func TestFailures(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	marker := filepath.Join(t.TempDir(), "marker")
	touch := func(calls ...Call) *Command {
		c := shell("touch " + marker)
		c.Inherit, c.Calls = []int{0, 1, 2}, calls
		return c
	}
	missing, folder, nul, closed := touch(), touch(), touch(), touch()
	missing.Path, folder.Path, nul.Argv, closed.Inherit = "/nonexistent", "/", []string{"a\x00b"}, []int{1 << 15}
	name := Call{Purpose: "ask for the name", Nr: unix.SYS_PRCTL, Args: [5]uintptr{unix.PR_GET_NAME, 1}}
	number := Call{Purpose: "be number 1", Nr: unix.SYS_GETPID, Want: 1}
	rows := []struct {
		c     *Command
		doing string
		errno syscall.Errno
	}{
		{missing, "", syscall.ENOENT},
		{folder, "", syscall.EACCES},
		{nul, "prepare the command line", syscall.EINVAL},
		{closed, "inherit a descriptor", syscall.EBADF},
		{touch(name), "ask for the name", syscall.EFAULT},
		{touch(number), "be number 1", syscall.EINVAL},
		{touch(number, name), "be number 1", syscall.EINVAL},
	}
	for _, r := range rows {
		pid, err := r.c.Start()
		doing := ""
		if e, ok := errors.AsType[*Error](err); ok {
			doing = e.Purpose
		}
		if pid != 0 || doing != r.doing || !errors.Is(err, r.errno) {
			t.Errorf("%d, %v; want %q, %v", pid, err, r.doing, r.errno)
		}
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the command was executed: %v", err)
	}
}

// TestCallsAreTheChilds checks that only the child makes the calls.
func TestCallsAreTheChilds(t *testing.T) {
	got, _ := output(t, func() (int, error) {
		c := shell(fmt.Sprintf("grep NoNewPrivs /proc/$$/status >/proc/self/fd/%d", out))
		c.Inherit = []int{0, 1, 2, out}
		c.Calls = []Call{{Purpose: "set no_new_privs", Nr: unix.SYS_PRCTL, Args: [5]uintptr{unix.PR_SET_NO_NEW_PRIVS, 1}}}
		pid, err := c.Start()
		if here, _ := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); here != 0 {
			t.Error("the parent has no_new_privs")
		}
		return pid, err
	})
	if got != "NoNewPrivs:\t1\n" {
		t.Errorf("the child: %q", got)
	}
}

// TestDiesWithTheThread checks that the kernel kills the command when the thread that started it exits.
func TestDiesWithTheThread(t *testing.T) {
	pids := make(chan int)
	go func() {
		runtime.LockOSThread() // and not unlocked
		c := shell("exec sleep 100")
		c.Inherit = []int{0, 1, 2}
		pid, err := c.Start()
		if err != nil {
			t.Error(err)
		}
		pids <- pid
	}()
	pid := <-pids
	late := time.AfterFunc(20*time.Second, func() { _ = syscall.Kill(pid, syscall.SIGTERM) })
	defer late.Stop()
	if ws := wait(t, pid); ws.Signal() != syscall.SIGKILL {
		t.Errorf("it ended with %#x", ws)
	}
}

// TestCgroup checks that the command starts in its cgroup.
func TestCgroup(t *testing.T) {
	var mount string
	for _, m := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(m, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			mount = m
		}
	}
	if mount == "" || os.Getuid() != 0 {
		t.Skip("needs root and cgroup v2")
	}
	dir, err := os.MkdirTemp(mount, "toolguard-test-")
	if err != nil {
		t.Skip("needs a cgroup v2 hierarchy to write in: ", err)
	}
	folder, err := os.Open(dir)
	must(t, err)
	defer folder.Close()
	defer func() {
		err := os.Remove(dir)
		for end := time.Now().Add(time.Minute); errors.Is(err, unix.EBUSY) && time.Now().Before(end); time.Sleep(time.Millisecond) {
			err = os.Remove(dir) // who has ended counts for a while
		}
		if err != nil {
			t.Error(err)
		}
	}()
	c := shell("cat /proc/$$/cgroup >/proc/self/fd/59")
	c.Inherit = []int{0, 1, 2, out}
	c.Cgroup = int(folder.Fd())
	if got, _ := output(t, c.Start); !strings.Contains(got, "0::/"+filepath.Base(dir)+"\n") {
		t.Errorf("it's in %s", got)
	}
	c.Cgroup = 1
	var e *Error
	if _, err := c.Start(); !errors.As(err, &e) || e.Purpose != "fork into the cgroup (clone3)" {
		t.Errorf("into no cgroup: %v", err)
	}
}

// TestUnderLoad forks concurrently, with garbage collections and signals.
func TestUnderLoad(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR2)
	defer signal.Stop(caught)
	stop := make(chan struct{})
	var load, forks sync.WaitGroup
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				runtime.GC()
				_ = syscall.Kill(os.Getpid(), syscall.SIGUSR2)
			}
		}
	})
	for i := range 4 {
		forks.Go(func() {
			for n := range 50 {
				c := shell("exit $1", fmt.Sprint(10*i+n%10))
				c.Inherit = []int{0, 1, 2}
				runtime.LockOSThread()
				pid, err := c.Start()
				runtime.UnlockOSThread()
				if err != nil {
					t.Error(err)
				} else if ws := wait(t, pid); ws.ExitStatus() != 10*i+n%10 {
					t.Errorf("%#x", ws)
				}
			}
		})
	}
	forks.Wait()
	close(stop)
	load.Wait()
}
