package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// requireCgroups skips a test where no cgroups can be created, unless the hierarchy is writable.
func requireCgroups(t *testing.T) Support {
	t.Helper()
	f := Probe()
	if f.Base == "" {
		if os.Geteuid() == 0 && f.Mount != "" && unix.Access(f.Mount, unix.W_OK) == nil {
			t.Fatalf("no base although %s is writable: %s", f.Mount, f.Why)
		}
		t.Skipf("needs a writable cgroup v2: %s", f.Why)
	}
	return f
}

func name(t *testing.T) string { return fmt.Sprintf("test-%d-%d", os.Getpid(), time.Now().UnixNano()) }

func group(t *testing.T, l policy.Limits, f Support) *Group {
	t.Helper()
	g, err := New(name(t), l, f)
	childtest.Must(t, err)
	t.Cleanup(func() {
		g.Kill()
		g.WaitEmpty(context.Background())
		g.Remove()
	})
	return g
}

// sleeper starts a process in a group (nil: in this process's), which is killed at the end.
func sleeper(t *testing.T, g *Group) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if g != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	}
	childtest.Must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

func TestProbeAgreesWithKernel(t *testing.T) {
	f := requireCgroups(t)
	var st unix.Statfs_t
	if err := unix.Statfs(f.Mount, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		t.Fatalf("%s: type %#x, %v; want a cgroup v2 file system", f.Mount, st.Type, err)
	}
	if f.Mode == Hybrid && f.Why == "" && len(f.Controllers) < 4 {
		t.Errorf("a hybrid machine without controllers doesn't report what is missing: %+v", f)
	}
}

// TestKillReachesDetached starts a shell that leaves its session and its parent, and a plain one that isn't in the
// group as control.
func TestKillReachesDetached(t *testing.T) {
	g := group(t, policy.Limits{}, requireCgroups(t))
	outside := sleeper(t, nil)

	// The shell waits for a line, so that it is in the group before it forks.
	cmd := exec.Command("sh", "-c", "read x; setsid sh -c 'sleep 1000 & sleep 1000' & setsid sleep 1000 & exit 0")
	in, err := cmd.StdinPipe()
	childtest.Must(t, err)
	childtest.Must(t, cmd.Start())
	childtest.Must(t, g.Add(cmd.Process.Pid))
	fmt.Fprintln(in)
	childtest.Must(t, cmd.Wait())
	if left, err := g.Populated(); err != nil || !left {
		t.Fatalf("populated = %v, %v after the first process; want those it left behind", left, err)
	}
	childtest.Must(t, g.Kill())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	childtest.Must(t, g.WaitEmpty(ctx))
	if err := outside.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("a process outside the group was killed too: %v", err)
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(g.Path()); !os.IsNotExist(err) {
		t.Errorf("still there: %v", err)
	}
}

func TestWaitEmptyEndsWithContext(t *testing.T) {
	g := group(t, policy.Limits{}, requireCgroups(t))
	sleeper(t, g)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := g.WaitEmpty(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("WaitEmpty with a process inside = %v", err)
	}
}

func TestRemoveFailsPopulated(t *testing.T) {
	g := group(t, policy.Limits{}, requireCgroups(t))
	sleeper(t, g)
	if err := g.Remove(); !errors.Is(err, unix.EBUSY) {
		t.Errorf("Remove with a process inside = %v", err)
	}
}

func TestNewIsExclusive(t *testing.T) {
	f := requireCgroups(t)
	id := name(t)
	g, err := New(id, policy.Limits{}, f)
	childtest.Must(t, err)
	defer g.Remove()
	if _, err := New(id, policy.Limits{}, f); !os.IsExist(err) {
		t.Errorf("the second of the same name: %v", err)
	}
}

// TestRemoveOrphans checks that cgroups of a killed creator are removed unless they have processes, and that locked ones remain.
func TestRemoveOrphans(t *testing.T) {
	f := requireCgroups(t)
	groups := map[string]*Group{}
	for _, what := range []string{"left", "busy", "had"} {
		g, err := New(name(t)+what, policy.Limits{}, f)
		childtest.Must(t, err)
		groups[what] = g
	}
	cmd := sleeper(t, groups["busy"])
	groups["left"].dir.Close() // as the kernel does for who is killed
	groups["busy"].dir.Close()
	there := func() (list string) {
		group(t, policy.Limits{}, f)
		for _, what := range []string{"left", "busy", "had"} {
			if _, err := os.Stat(groups[what].path); err == nil {
				list += what + " "
			}
		}
		return list
	}
	if got := there(); got != "busy had " {
		t.Errorf("with a process: %q", got)
	}
	cmd.Process.Kill()
	cmd.Wait()
	got := there()
	for end := time.Now().Add(time.Minute); got != "had " && time.Now().Before(end); got = there() { // a process counts for some moments
		time.Sleep(10 * time.Millisecond)
	}
	if got != "had " {
		t.Errorf("without: %q", got)
	}
	if err := groups["had"].Remove(); err != nil {
		t.Error(err)
	}
}

// TestForeignLock checks that another process's lock on a session's folder blocks neither a new session nor a takeover.
func TestForeignLock(t *testing.T) {
	g := group(t, policy.Limits{}, requireCgroups(t))
	_ = g.dir.Close() // as the kernel does for who is killed
	another, err := os.Open(g.path)
	childtest.Must(t, err)
	defer another.Close()
	childtest.Must(t, unix.Flock(int(another.Fd()), unix.LOCK_SH))
	if g.dir, err = open(g.path); err != nil {
		t.Fatal(err)
	}
	lockFolder(g.dir)
	_ = g.dir.Close()
	over, err := Open(g.path)
	childtest.Must(t, err)
	g.dir = over.dir
}

// TestModes checks that only root can open the folders, to lock them, and that other users can read a session's limits, under any umask.
func TestModes(t *testing.T) {
	childtest.NeedsRoot(t)
	f := requireCgroups(t)
	_ = os.Chmod(filepath.Join(f.Mount, f.Base, parentName), 0o700) // as one is that was made under such a one
	defer syscall.Umask(syscall.Umask(0o077))
	g := group(t, policy.Limits{}, f)
	for path, want := range map[string]os.FileMode{g.path: 0o711, g.path + "/cgroup.procs": 0o644, filepath.Dir(g.path): 0o711} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v, want %v", path, info.Mode(), err, want)
		}
	}
}

func TestNewRejectsNames(t *testing.T) {
	f := requireCgroups(t)
	for _, id := range []string{"", "..", "a/b", "../x", "a\nb", ".hidden", strings.Repeat("a", 65)} {
		if g, err := New(id, policy.Limits{}, f); err == nil {
			g.Remove()
			t.Errorf("New(%q) made a cgroup", id)
		}
	}
}

// TestLimitsEnforcedOrRejected checks that with controllers, a limit is enforced on a real process, and that without, New fails and
// leaves nothing.
func TestLimitsEnforcedOrRejected(t *testing.T) {
	f := requireCgroups(t)
	l := policy.Limits{Pids: policy.Count{N: 4}}
	if !f.Has("pids") {
		id := name(t)
		if g, err := New(id, l, f); err == nil {
			g.Remove()
			t.Fatal("a limit that can't be set was accepted")
		} else if !strings.Contains(err.Error(), "limits.pids") {
			t.Errorf("the error doesn't name the limit: %v", err)
		}
		if _, err := os.Stat(f.Mount + f.Base + "/" + parentName + "/" + id); !os.IsNotExist(err) {
			t.Errorf("a cgroup was left behind: %v", err)
		}
		return
	}
	g := group(t, l, f)
	cmd := exec.Command("sh", "-c", "for i in 1 2 3 4 5 6 7 8; do sleep 1 & done; wait")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("eight processes under a limit of four: %s", out)
	}
	if e, err := g.Events(); err != nil || e.PidsMax == 0 {
		t.Errorf("events = %+v, %v; want the failed forks", e, err)
	}
}

func TestDisksAreTheMachines(t *testing.T) {
	entries := func() int {
		list, err := os.ReadDir("/sys/block")
		childtest.Must(t, err)
		return len(list)
	}
	for {
		before := entries()
		got, err := Disks()
		childtest.Must(t, err)
		if before != entries() {
			continue // other tests mount some
		}
		if len(got) != before {
			t.Errorf("%d of %d disks", len(got), before)
		}
		return
	}
}

// BenchmarkAdd shows why the launch prefers CLONE_INTO_CGROUP.
func BenchmarkAdd(b *testing.B) {
	f := Probe()
	if f.Base == "" {
		b.Skip(f.Why)
	}
	b.StopTimer()
	for i := range b.N {
		g, err := New(fmt.Sprintf("bench-%d-%d", os.Getpid(), i), policy.Limits{}, f)
		childtest.Must(b, err)
		cmd := exec.Command("sleep", "1000")
		childtest.Must(b, cmd.Start())
		b.StartTimer()
		err = g.Add(cmd.Process.Pid)
		b.StopTimer()
		cmd.Process.Kill()
		cmd.Wait()
		childtest.Must(b, errors.Join(err, g.Remove()))
	}
}

// TestMoveTo checks that a process can be moved out of the cgroup again.
func TestMoveTo(t *testing.T) {
	g := group(t, policy.Limits{}, requireCgroups(t))
	cmd := sleeper(t, nil)
	childtest.Must(t, g.Add(cmd.Process.Pid))
	if pids, err := g.Processes(); err != nil || !slices.Equal(pids, []int{cmd.Process.Pid}) {
		t.Fatal(pids, err)
	}
	childtest.Must(t, MoveTo(cmd.Process.Pid, os.Getpid()))
	own, err := os.ReadFile("/proc/self/cgroup")
	its, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", cmd.Process.Pid))
	if err != nil || err2 != nil || string(own) != string(its) {
		t.Errorf("%q, want %q; %v", its, own, errors.Join(err, err2))
	}
	if pids, err := g.Processes(); err != nil || len(pids) != 0 {
		t.Error(pids, err)
	}
}
