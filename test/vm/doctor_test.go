//go:build linux

package vm

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// abis is the Landlock ABI of each kernel; the newest kernel's is at least this one.
var abis = map[string]int{"6.1": 2, "6.12": 6, "newest": 10}

// TestDoctor compares doctor's report with the kernel's own files, and with the known features of such a kernel.
func TestDoctor(t *testing.T) {
	g := inGuest(t)
	out, err := exec.Command(g.toolguard, "doctor", "--json").Output()
	must(t, err)
	var doctor struct {
		Probes []struct{ Name, Result, Detail string }
	}
	if err := json.Unmarshal(out, &doctor); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	details := make(map[string]string)
	for _, p := range doctor.Probes {
		details[p.Name] = p.Detail
		want := "yes"
		if p.Name == "denial events" && abis[g.series] < 7 {
			want = "no"
		}
		if p.Result != want {
			t.Errorf("%s: %s (%s), want %s", p.Name, p.Result, p.Detail, want)
		}
	}

	release := kernelFile(t, "/proc/sys/kernel/osrelease")
	if g.series != "newest" && !strings.HasPrefix(release, g.series+".") {
		t.Errorf("this is Linux %s, not %s", release, g.series)
	}
	if !strings.HasPrefix(details["kernel"], release+" ") {
		t.Errorf("kernel: %q; it's %s", details["kernel"], release)
	}
	if lsms := kernelFile(t, "/sys/kernel/security/lsm"); details["bpf in the LSM list"] != lsms {
		t.Errorf("bpf in the LSM list: %q; it's %s", details["bpf in the LSM list"], lsms)
	}
	var abi int
	if _, err := fmt.Sscanf(details["landlock"], "ABI %d", &abi); err != nil {
		t.Errorf("landlock: %q: %v", details["landlock"], err)
	}
	if want := abis[g.series]; abi < want || abi > want && g.series != "newest" {
		t.Errorf("landlock: %q; Linux %s has ABI %d", details["landlock"], release, want)
	}
	controllers := strings.Fields(kernelFile(t, "/sys/fs/cgroup/cgroup.controllers"))
	for _, c := range []string{"memory", "pids", "cpu", "io"} {
		if !slices.Contains(controllers, c) {
			t.Errorf("the guest has no controller for %s", c)
		}
	}
	if want := "controllers: " + strings.Join(controllers, " "); !strings.HasSuffix(details["cgroup v2 controllers"], want) {
		t.Errorf("cgroup v2 controllers: %q; it's %s", details["cgroup v2 controllers"], want)
	}
}

func kernelFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	return strings.TrimSpace(string(text))
}
