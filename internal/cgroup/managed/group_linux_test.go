package managed

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// TestLimits checks that toolguard and containerd/cgroups write the same limits to the kernel's files (cgroup-v2.rst).
func TestLimits(t *testing.T) {
	facts := cgroup.Probe()
	if facts.Why != "" {
		t.Skipf("needs cgroup v2 with its controllers: %s", facts.Why)
	}
	disks, err := cgroup.Disks()
	if err != nil || len(disks) == 0 {
		t.Fatalf("disks: %v, %v: without one io.max shows nothing", disks, err)
	}
	disk := func(line string) string {
		var lines []string
		for _, d := range disks {
			lines = append(lines, fmt.Sprintf("%d:%d %s", d[0], d[1], line))
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	all := policy.Limits{Memory: policy.Bytes{N: 64 << 20}, Pids: policy.Count{N: 5}, CPU: policy.Percent{N: 50}, IO: policy.Bytes{N: 3}}
	for _, row := range []struct {
		name   string
		limits policy.Limits
		want   map[string]string // the others have none
	}{
		{"all", all, map[string]string{
			"memory.max": "67108864", "memory.swap.max": "0", "pids.max": "5", "cpu.max": "50000 100000", "io.max": disk("rbps=2 wbps=2 riops=max wiops=max"),
		}},
		{"none", policy.Limits{}, nil},
		{"memory, without swap", policy.Limits{Memory: policy.Bytes{N: 1 << 30}}, map[string]string{"memory.max": "1073741824", "memory.swap.max": "0"}},
		{"more memory than the kernel counts", policy.Limits{Memory: policy.Bytes{N: math.MaxUint64}}, map[string]string{"memory.swap.max": "0"}},
		{"processes", policy.Limits{Pids: policy.Count{N: 256}}, map[string]string{"pids.max": "256"}},
		{"more processes than there can be", policy.Limits{Pids: policy.Count{N: math.MaxUint64}}, map[string]string{"pids.max": "4194304"}},
		{"one and a half processors", policy.Limits{CPU: policy.Percent{N: 150}}, map[string]string{"cpu.max": "150000 100000"}},
		{"one hundredth of one", policy.Limits{CPU: policy.Percent{N: 1}}, map[string]string{"cpu.max": "1000 100000"}},
		{"disks", policy.Limits{IO: policy.Bytes{N: 1000}}, map[string]string{"io.max": disk("rbps=500 wbps=500 riops=max wiops=max")}},
		{"less than the kernel takes", policy.Limits{IO: policy.Bytes{N: 1}}, map[string]string{"io.max": disk("rbps=2 wbps=2 riops=max wiops=max")}},
	} {
		id := fmt.Sprintf("test-%d", os.Getpid())
		own, err := cgroup.New(id+"-own", row.limits, facts)
		if err != nil {
			t.Fatal(row.name, err)
		}
		library, err := New(id+"-library", row.limits, facts)
		if err != nil {
			t.Fatal(row.name, err)
		}
		for file, want := range map[string]string{"memory.max": "max", "memory.swap.max": "max", "pids.max": "max", "cpu.max": "max 100000", "io.max": ""} {
			if set, ok := row.want[file]; ok {
				want = set
			}
			for _, g := range []*cgroup.Group{own, library.Group} {
				text, err := os.ReadFile(filepath.Join(g.Path(), file))
				lines := strings.Split(strings.TrimSpace(string(text)), "\n")
				slices.Sort(lines)
				if got := strings.Join(lines, "\n"); err != nil || got != want {
					t.Errorf("%s: %s of %s: %q, %v; want %q", row.name, file, g.Path(), got, err, want)
				}
			}
		}
		for _, g := range []*cgroup.Group{own, library.Group} {
			if err := g.Remove(); err != nil {
				t.Error(row.name, err)
			}
		}
	}
}

// TestUsage checks that the usage of ended processes is reported, also by another manager, and that unknown figures aren't zero.
func TestUsage(t *testing.T) {
	facts := cgroup.Probe()
	if facts.Base == "" {
		t.Skipf("needs a writable cgroup v2: %s", facts.Why)
	}
	g, err := New(fmt.Sprintf("test-%d", os.Getpid()), policy.Limits{}, facts)
	childtest.Must(t, err)
	const size = 4 << 20
	script := fmt.Sprintf(`i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; head -c %d /dev/zero >"$0"; sync "$0"`, size)
	cmd := exec.Command("bash", "-c", script, t.TempDir()+"/file")
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: g.FD()}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	again, err := Open(g.Path())
	childtest.Must(t, err)
	u, unknown := again.Usage()
	if u.CPU == nil || *u.CPU == 0 {
		t.Errorf("no processor time: %+v, %q", u, unknown)
	}
	for _, f := range []struct {
		controller, file string
		got              *uint64
		least            uint64
	}{{"memory", "memory.peak", u.Memory, size}, {"io", "io.stat", u.Written, size}} {
		switch has, why := facts.Has(f.controller), strings.Contains(strings.Join(unknown, ""), f.file); {
		case has && (f.got == nil || *f.got < f.least || why):
			t.Errorf("%s: %+v, %q", f.controller, u, unknown)
		case !has && (f.got != nil || !why):
			t.Errorf("without %s: %+v, %q", f.controller, u, unknown)
		}
	}
	if err := g.Remove(); err != nil {
		t.Error(err)
	}
	if u, unknown := again.Usage(); u.CPU != nil || len(unknown) != len(statistics) {
		t.Errorf("of a cgroup that isn't there: %+v, %q", u, unknown)
	}
}
