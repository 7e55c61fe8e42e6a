package launch

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// wrapped returns a command within bubblewrap, with Landlock and filters of a policy that grants /usr alone.
func wrapped(t *testing.T, path string, argv ...string) *Command {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		t.Skip("needs bwrap")
	}
	abi, _, err := landlock.Probe()
	if err != nil {
		t.Skip("needs landlock: ", err)
	}
	l := policy.SourceLayer{Authority: policy.Session}
	l.Defaults[policy.FS] = policy.Deny
	for _, dir := range []string{"/usr", "/lib", "/lib64", "/bin", "/proc"} {
		l.FS = append(l.FS, policy.FSRule{Path: dir, Caps: policy.Read | policy.Execute, Optional: true})
	}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/usr", Home: "/usr", Layers: []policy.SourceLayer{l}}, hostfs.Machine{})
	must(t, err)
	plan, err := landlock.NewPlan(c, abi)
	must(t, err)
	filters, err := seccomp.Filters(c, seccomp.Backend{ABI: abi})
	must(t, err)
	return &Command{
		Path: path, Argv: argv, Env: []string{"A=\xff"}, Keep: []int{0, 1, 2}, Plan: plan, Name: "toolguard-test", filters: filters,
		Wrapper: &Wrapper{Path: bwrap, Covers: func(string) policy.Caps { return 0 }, Args: func(inner []string, _ []int) ([]string, error) {
			return append([]string{"--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--"}, inner...), nil
		}},
	}
}

// runWrapped runs a command, and returns its output and its exit status.
func runWrapped(t *testing.T, c *Command, running func()) (string, syscall.WaitStatus, error) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	c.Keep = append(c.Keep, int(w.Fd()))
	c.Argv = append(c.Argv, "/proc/self/fd/"+strconv.Itoa(int(w.Fd())))
	started, ended := make(chan error), make(chan syscall.WaitStatus, 1)
	forkexec.OnThread(func() {
		pid, err := c.Fork()
		w.Close()
		started <- err
		if err != nil {
			return
		}
		var ws syscall.WaitStatus
		for {
			if _, err := syscall.Wait4(pid, &ws, 0, nil); !errors.Is(err, syscall.EINTR) {
				break
			}
		}
		ended <- ws
	})
	if err := <-started; err != nil {
		return "", 0, err
	}
	if running != nil {
		running()
	}
	text, err := io.ReadAll(r)
	must(t, err)
	return string(text), <-ended, nil
}

// TestWrapped checks that a command starts within a wrapper as without one, under Landlock and the filters, and with nothing else of toolguard; and that
// what it leaves in the background ends with it: it has the pipe open.
func TestWrapped(t *testing.T) {
	script := `exec >$1; sleep 1000 &
 printf %s "$0" "$A" "$#"; head -c 4 /usr/bin/env | tail -c 3; cat /etc/passwd; unshare -U true; echo; echo fds $(ls /proc/self/fd | wc -l)
[ "$PPID" = 1 ] && echo within; grep -E 'NoNewPrivs|^Seccomp:' /proc/self/status; exit 3`
	got, end, err := runWrapped(t, wrapped(t, "/bin/sh", "sh", "-c", script, "\xfe \n"), nil)
	must(t, err)
	for _, want := range []string{"\xfe \n\xff1", "ELF\n", "fds 5\n", "within\n", "NoNewPrivs:\t1\n", "Seccomp:\t2\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	if strings.Contains(got, "root:") || end.ExitStatus() != 3 {
		t.Errorf("%q, %v", got, end)
	}
}

// TestWrappedSignal checks that the command's own process gets the signals, and can catch them.
func TestWrappedSignal(t *testing.T) {
	c := wrapped(t, "/bin/sh", "sh", "-c", `trap 'echo caught >$0; exit 4' TERM; echo ready >$0; while :; do sleep 0.05; done`)
	got, end, err := runWrapped(t, c, func() {
		s := &Supervisor{}
		s.SetWrapped(1<<30, c.Process) // no process is the wrapper
		time.Sleep(200 * time.Millisecond)
		s.kill(syscall.SIGTERM)
	})
	must(t, err)
	if got != "ready\ncaught\n" || end.ExitStatus() != 4 {
		t.Errorf("%q, %v", got, end)
	}
}

// TestWrappedFailures checks that a command that isn't executed is reported with the step that failed, and leaves no process.
func TestWrappedFailures(t *testing.T) {
	missing, script, folder, wrapper := wrapped(t, "/usr/nonexistent", "x"), wrapped(t, "/etc/passwd", "x"), wrapped(t, "/bin/true", "x"), wrapped(t, "/bin/true", "x")
	folder.Wrapper.Mounts = []mounts.Mount{{Path: "/usr", Mode: mounts.Hidden, Dir: true}}
	wrapper.Wrapper.Args = func([]string, []int) ([]string, error) { return []string{"--nonsense"}, nil }
	for _, r := range []struct {
		c       *Command
		purpose string
		errno   syscall.Errno
		text    string
	}{
		{missing, "", unix.ENOENT, ""},
		{script, "", unix.EACCES, ""},
		{folder, "check the wrapper's mounts", 0, "/usr"},
		{wrapper, "start the process within the wrapper", 0, errWrapperEnded.Error()},
	} {
		_, _, err := runWrapped(t, r.c, nil)
		purpose := ""
		if step, ok := errors.AsType[*forkexec.Error](err); ok {
			purpose = step.Purpose
		}
		if err == nil || purpose != r.purpose || r.errno != 0 && !errors.Is(err, r.errno) || !strings.Contains(err.Error(), r.text) {
			t.Errorf("%v; want %q, %v, %q", err, r.purpose, r.errno, r.text)
		}
	}
	if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); err != syscall.ECHILD {
		t.Errorf("a child is left: %d, %v", pid, err)
	}
}

// TestWrappedDescriptors checks that no descriptor leads around the mounts: a command would open /proc/self/fd/N again, in the mounts of its opener.
func TestWrappedDescriptors(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/masked", nil, 0o600))
	must(t, os.WriteFile(dir+"/free", nil, 0o600))
	must(t, unix.Mkfifo(dir+"/masked-fifo", 0o600))
	for name, want := range map[string]string{"masked": "the policy denies update", "masked-fifo": "the policy denies update", "free": "", ".": "is the folder"} {
		c := wrapped(t, "/bin/true", "true")
		c.Wrapper.Covers = func(path string) policy.Caps {
			if strings.HasPrefix(path, dir+"/masked") {
				return policy.Update
			}
			return 0
		}
		f, err := os.OpenFile(dir+"/"+name, os.O_RDONLY|unix.O_NONBLOCK, 0)
		must(t, err)
		c.Keep = append(c.Keep, int(f.Fd()))
		_, _, err = runWrapped(t, c, nil)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
		f.Close()
	}
}

// TestWrapperEnvironment checks that the wrapper, which starts unrestricted, gets nothing of the command's environment: its loader would obey it.
func TestWrapperEnvironment(t *testing.T) {
	for _, env := range [][]string{nil, {"HOME=/nowhere"}} {
		c, seen := wrapped(t, "/bin/true", "true"), t.TempDir()+"/seen"
		c.Env = append(c.Env, "LD_PRELOAD=/nowhere/evil.so")
		c.Wrapper.Path, c.Wrapper.Env = "/bin/sh", env
		c.Wrapper.Args = func([]string, []int) ([]string, error) { return []string{"-c", "/usr/bin/env >" + seen}, nil }
		if _, _, err := runWrapped(t, c, nil); !errors.Is(err, errWrapperEnded) {
			t.Error(err)
		}
		text := childtest.ReadFile(t, seen)
		if strings.Contains(string(text), "LD_PRELOAD") || strings.Contains(string(text), "A=") || env != nil && !strings.Contains(string(text), env[0]) {
			t.Errorf("%q", text)
		}
	}
}

// TestWrapperInterrupted checks that a signal ends a start that takes long, although the wrapper has it blocked.
func TestWrapperInterrupted(t *testing.T) {
	c := wrapped(t, "/bin/true", "true")
	s := &Supervisor{}
	c.Wrapper.Supervisor, c.Wrapper.Path = s, "/bin/sleep"
	c.Wrapper.Args = func([]string, []int) ([]string, error) { return []string{"1000"}, nil }
	stop := time.AfterFunc(100*time.Millisecond, func() {
		for !s.starting() {
			time.Sleep(time.Millisecond)
		}
		s.kill(syscall.SIGTERM)
	})
	defer stop.Stop()
	if _, _, err := runWrapped(t, c, nil); !errors.Is(err, errWrapperEnded) {
		t.Error(err)
	}
	if s.starting() || s.pid != 0 {
		t.Errorf("%+v", s)
	}
}
