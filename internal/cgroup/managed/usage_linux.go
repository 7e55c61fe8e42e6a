package managed

import (
	"os"
	"path/filepath"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/containerd/cgroups/v3/cgroup2/stats"

	"github.com/toolguard/toolguard/internal/event"
)

// statistics are the reported figures with the kernel's file of each. The library returns zeros if a file doesn't exist.
var statistics = []struct {
	file  string
	which cgroup2.StatMask
	take  func(*event.Usage, *stats.Metrics)
	what  string
}{
	{"cpu.stat", cgroup2.StatCPU, func(u *event.Usage, m *stats.Metrics) { u.CPU = new(m.GetCPU().GetUsageUsec() / 1000) }, "processor time"},
	{"memory.peak", cgroup2.StatMemory, func(u *event.Usage, m *stats.Metrics) { u.Memory = new(m.GetMemory().GetMaxUsage()) }, "memory"}, // Linux 5.19
	{"io.stat", cgroup2.StatIO, func(u *event.Usage, m *stats.Metrics) {
		var read, written uint64
		for _, disk := range m.GetIo().GetUsage() {
			read, written = read+disk.GetRbytes(), written+disk.GetWbytes()
		}
		u.Read, u.Written = &read, &written
	}, "disk traffic"},
}

// Usage returns the resources that the processes in the cgroup have used since they entered it, and which figures are unknown, with the reason.
func (g *Group) Usage() (u event.Usage, unknown []string) {
	for _, f := range statistics {
		_, err := os.Stat(filepath.Join(g.Path(), f.file))
		var m *stats.Metrics
		if err == nil {
			m, err = g.manager.StatFiltered(f.which)
		}
		switch {
		case os.IsNotExist(err):
			unknown = append(unknown, f.what+" (the kernel has no "+f.file+" of its cgroup)")
		case err != nil:
			unknown = append(unknown, f.what+" ("+err.Error()+")")
		default:
			f.take(&u, m)
		}
	}
	return u, unknown
}
