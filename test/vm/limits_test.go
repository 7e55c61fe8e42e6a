//go:build linux

package vm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// cgroups is the folder that sessions' cgroups are in.
const cgroups = "/sys/fs/cgroup/toolguard"

// groups lists the sessions' cgroups.
func groups(t *testing.T) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(cgroups)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() {
			found = append(found, filepath.Join(cgroups, e.Name()))
		}
	}
	return found
}

// TestLimitsMet meets each limit that has an event. Each has its control: the same command under more.
func TestLimitsMet(t *testing.T) {
	g := inGuest(t)
	const (
		allocate = `exec python3 -c 'bytearray(96 << 20); print("allocated")'`
		fork     = `exec python3 -c 'import os, time
for i in range(12):
    if os.fork() == 0: time.sleep(1000)
print("forked", flush=True); os._exit(0)'`
	)
	for _, c := range []struct {
		name, limits, script string
		status               int // of the session; -1: any but 0
		out, met             string
	}{
		{"memory", `memory = "64MiB"`, allocate, 137, "", "limits.memory"},
		{"memory/more", `memory = "256MiB"`, allocate, 0, "allocated", ""},
		{"pids", `pids = 8`, fork, -1, "", "limits.pids"},
		{"pids/more", `pids = 64`, fork, 0, "forked", ""},
		{"both", "memory = \"64MiB\"\npids = 8", fork, -1, "", "limits.pids"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := g.session(t, c.limits, c.script)
			status := s.finish()
			if status != c.status && (c.status != -1 || status == 0) {
				t.Errorf("status %d, want %d", status, c.status)
			}
			if strings.Contains(s.stdout.String(), "ed\n") != (c.out != "") || !strings.Contains(s.stdout.String(), c.out) {
				t.Errorf("it printed %q, want %q", &s.stdout, c.out)
			}
			if met := s.met(); met != c.met {
				t.Errorf("the events have limits %q, want %q", met, c.met)
			}
			if left := groups(t); len(left) > 0 {
				t.Errorf("left behind: %s", left)
			}
		})
	}
}

// TestLimitCPU compares the processor time that two busy processes get with the time that passes.
func TestLimitCPU(t *testing.T) {
	g := inGuest(t)
	const busy = `exec python3 -c 'import os, time
start = time.time()
for _ in range(2):
    if os.fork() == 0:
        while time.time() < start + 2: pass
        os._exit(0)
os.wait(); os.wait()
used = os.times()
print(int(100 * (used.children_user + used.children_system) / (time.time() - start)))'`
	percent := func(limit string) int {
		s := g.session(t, `cpu = "`+limit+`"`, busy)
		s.finish()
		n, err := strconv.Atoi(strings.TrimSpace(s.stdout.String()))
		must(t, err)
		return n
	}
	if got := percent("40%"); got > 50 {
		t.Errorf("under 40%% of a processor: %d%%", got)
	}
	if got := percent("200%"); got < 80 {
		t.Errorf("under 200%% of a processor: %d%%; the test sees no limit", got)
	}
}

// TestLimitIO writes 3 MiB to a real disk, past the page cache and through it, at 2 MiB a second and as fast as it goes.
func TestLimitIO(t *testing.T) {
	g := inGuest(t)
	for _, c := range []struct{ name, flags string }{
		{"direct", "oflag=direct"}, {"cached", "&& sync file"}, {"flushed", "&& sync"},
	} {
		t.Run(c.name, func(t *testing.T) {
			took := func(limit string) (seconds float64) {
				s := g.session(t, `io = "`+limit+`"`,
					"set -e; a=$EPOCHREALTIME; dd if=/dev/zero of=file bs=64K count=48 status=none "+c.flags+"; echo $a $EPOCHREALTIME")
				if status := s.finish(); status != 0 {
					t.Errorf("status %d", status)
				}
				var began, ended float64
				if _, err := fmt.Sscan(s.stdout.String(), &began, &ended); err != nil {
					t.Fatal(err)
				}
				return ended - began
			}
			slow := took("2MiB")
			if slow < 1.2 {
				t.Errorf("3 MiB took %g s at 2 MiB a second", slow)
			}
			for try := 1; ; try++ { // a busy machine's disk is slow now and then
				if fast := took("1GiB"); fast < slow/2 {
					break
				} else if try == 10 {
					t.Fatalf("3 MiB took %g s at 2 MiB a second, and %g at 1 GiB a second; the test sees no limit", slow, fast)
				}
			}
		})
	}
}

// TestLimitsAreSetAndRemoved looks at a session's cgroup from outside, while it runs and after.
func TestLimitsAreSetAndRemoved(t *testing.T) {
	g := inGuest(t)
	s := g.session(t, "memory = \"128MiB\"\npids = 32\ncpu = \"150%\"\nio = \"8MiB\"",
		"setsid sleep 1000.0601 & echo $$; read -r")
	stdin, err := s.StdinPipe()
	must(t, err)
	must(t, s.Start())
	var procs []string
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) { // until both are there
		if found := groups(t); len(found) == 1 {
			if procs = strings.Fields(kernelFile(t, found[0]+"/cgroup.procs")); len(procs) == 2 {
				break
			}
		}
	}
	if len(procs) != 2 {
		t.Fatalf("in %s: %s; want one cgroup with the shell and its child", groups(t), procs)
	}
	dir := groups(t)[0]
	if slices.Contains(procs, strconv.Itoa(s.Process.Pid)) {
		t.Errorf("toolguard limits itself")
	}
	for name, want := range map[string]string{
		"memory.max": "134217728", "memory.swap.max": "0", "pids.max": "32", "cpu.max": "150000 100000",
	} {
		if got := kernelFile(t, dir+"/"+name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	limits := kernelFile(t, dir+"/io.max")
	disks, err := filepath.Glob("/sys/block/vd*/dev")
	if err != nil || len(disks) == 0 {
		t.Fatalf("disks: %s, %v", disks, err)
	}
	for _, disk := range disks {
		if want := kernelFile(t, disk) + " rbps=4194304 wbps=4194304"; !strings.Contains(limits, want) {
			t.Errorf("io.max: %q, want %q", limits, want)
		}
	}
	stdin.Close()
	s.status()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	for _, pid := range procs {
		if text, err := os.ReadFile("/proc/" + pid + "/cmdline"); err == nil && strings.Contains(string(text), "1000.0601") {
			t.Errorf("process %s is still there", pid)
		}
	}
}

// TestLimitsStay makes a command try to raise its limit where the policy grants writing the control groups: toolguard prevents it, or
// doesn't start the command.
func TestLimitsStay(t *testing.T) {
	g := inGuest(t)
	s := g.session(t, "pids = 16\n[access]\ndefault = \"allow\"\n[[access.fs]]\npath = \"/sys/fs/cgroup\"\nread = true\nwrite = true", `
set -- /sys/fs/cgroup/toolguard/*/pids.max; cat "$1"
echo max >"$1" || echo kept; cat "$1"
echo $$ >/sys/fs/cgroup/cgroup.procs || echo stayed`)
	s.finish()
	if got := s.stdout.String(); got != "16\nkept\n16\nstayed\n" && (got != "" || !strings.Contains(s.stderr.String(), "/sys/fs/cgroup")) {
		t.Errorf("it printed %q", got)
	}
	control := exec.Command("bash", "-c", "mkdir /sys/fs/cgroup/control; echo 16 >/sys/fs/cgroup/control/pids.max && rmdir /sys/fs/cgroup/control")
	if out, err := control.CombinedOutput(); err != nil {
		t.Errorf("root can't set a limit without toolguard: %v: %s", err, out)
	}
}
