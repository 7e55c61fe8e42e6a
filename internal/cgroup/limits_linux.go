package cgroup

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup2"

	"github.com/toolguard/toolguard/internal/policy"
)

// cpuPeriod is over what time processor time is shared out, in microseconds: the kernel's own default.
const cpuPeriod = 100_000

// resources are the limits in the library's terms; nil when a cgroup has nothing to limit.
func resources(l policy.Limits) (*cgroup2.Resources, error) {
	res := &cgroup2.Resources{}
	limited := false
	if n := l.Memory.N; n != 0 {
		v := int64(min(n, math.MaxInt64))
		res.Memory, limited = &cgroup2.Memory{Max: &v}, true
	}
	if n := l.Pids.N; n != 0 {
		res.Pids, limited = &cgroup2.Pids{Max: int64(min(n, maxPids))}, true
	}
	if n := l.CPU.N; n != 0 {
		quota, period := int64(min(n, maxPercent))*cpuPeriod/100, uint64(cpuPeriod)
		res.CPU, limited = &cgroup2.CPU{Max: cgroup2.NewCPUMax(&quota, &period)}, true
	}
	if n := l.IO.N; n != 0 {
		disks, err := disks("/sys/block")
		if err != nil {
			return nil, err
		}
		res.IO, limited = &cgroup2.IO{Max: ioMax(n, disks)}, true
	}
	if !limited {
		return nil, nil
	}
	return res, nil
}

// disk is a whole block device: partitions can't be limited by themselves.
type disk struct{ major, minor int64 }

// disks lists the machine's block devices.
func disks(sys string) ([]disk, error) {
	entries, err := os.ReadDir(sys)
	if err != nil {
		return nil, fmt.Errorf("list disks: %w", err)
	}
	var found []disk
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(sys, e.Name(), "dev"))
		if err != nil {
			return nil, fmt.Errorf("list disks: %w", err)
		}
		var d disk
		if _, err := fmt.Sscanf(strings.TrimSpace(string(b)), "%d:%d", &d.major, &d.minor); err != nil {
			return nil, fmt.Errorf("list disks: %s: %w", e.Name(), err)
		}
		found = append(found, d)
	}
	return found, nil
}

// ioMax shares a limit on the sum between the two directions: the kernel has no limit on the sum.
func ioMax(n uint64, disks []disk) (max []cgroup2.Entry) {
	rate := uint64(1)
	if n > 1 {
		rate = n / 2
	}
	for _, d := range disks {
		for _, t := range []cgroup2.IOType{cgroup2.ReadBPS, cgroup2.WriteBPS} {
			max = append(max, cgroup2.Entry{Type: t, Major: d.major, Minor: d.minor, Rate: rate})
		}
	}
	return max
}

// Events is how often a limit was met.
type Events struct {
	OOM     uint64 // processes that were killed because memory ran out
	PidsMax uint64 // forks that failed
}

// Events reads the counters. Those of limits that aren't set are zero.
func (g *Group) Events() (e Events, err error) {
	mem, err := g.keyed("memory.events")
	if err != nil && !os.IsNotExist(err) {
		return e, err
	}
	pids, err := g.keyed("pids.events")
	if err != nil && !os.IsNotExist(err) {
		return e, err
	}
	return Events{OOM: mem["oom_kill"], PidsMax: pids["max"]}, nil
}

// keyed reads a file of "name number" lines.
func (g *Group) keyed(name string) (map[string]uint64, error) {
	b, err := os.ReadFile(filepath.Join(g.path, name))
	if err != nil {
		return nil, err
	}
	return parseKeyed(b)
}

func parseKeyed(b []byte) (map[string]uint64, error) {
	m := map[string]uint64{}
	for line := range bytes.Lines(b) {
		var k string
		var v uint64
		if _, err := fmt.Sscanf(string(line), "%s %d", &k, &v); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		m[k] = v
	}
	return m, nil
}
