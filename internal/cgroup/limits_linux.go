package cgroup

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"github.com/toolguard/toolguard/internal/policy"
)

// CPUMax returns a limit of processor time as quota and period in microseconds. The period is the kernel's default.
func CPUMax(percent uint64) (quota int64, period uint64) {
	period = 100_000
	return int64(min(percent, maxPercent) * period / 100), period
}

// setting is one limit in the kernel's form (Documentation/admin-guide/cgroup-v2.rst).
type setting struct {
	controller string
	file       string
	values     []string // written one after the other
	optional   bool     // if the file doesn't exist, there is nothing to limit
}

// settings returns the limits in the kernel's form.
func settings(l policy.Limits) ([]setting, error) {
	var all []setting
	add := func(controller, file string, values ...string) {
		all = append(all, setting{controller: controller, file: file, values: values})
	}
	if n := l.Memory.N; n != 0 {
		add("memory", "memory.max", strconv.FormatUint(min(n, math.MaxInt64), 10))
		all = append(all, setting{"memory", "memory.swap.max", []string{"0"}, true}) // no swap accounting: no file
	}
	if n := l.Pids.N; n != 0 {
		add("pids", "pids.max", strconv.FormatUint(min(n, MaxPids), 10))
	}
	if n := l.CPU.N; n != 0 {
		quota, period := CPUMax(n)
		add("cpu", "cpu.max", fmt.Sprintf("%d %d", quota, period))
	}
	if n := l.IO.N; n != 0 {
		disks, err := Disks()
		if err != nil {
			return nil, err
		}
		for _, d := range disks {
			add("io", "io.max", fmt.Sprintf("%d:%d rbps=%d wbps=%d", d[0], d[1], IORate(n), IORate(n)))
		}
	}
	return all, nil
}

// Disks returns the major and minor numbers of the machine's block devices, without partitions, which can't be limited separately.
func Disks() (found [][2]int64, err error) {
	const sys = "/sys/block"
	entries, err := os.ReadDir(sys)
	if err != nil {
		return nil, fmt.Errorf("list disks: %w", err)
	}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(sys, e.Name(), "dev"))
		var d [2]int64
		if err == nil {
			_, err = fmt.Sscanf(string(b), "%d:%d", &d[0], &d[1])
		}
		if err != nil {
			return nil, fmt.Errorf("list disks: %w", err)
		}
		found = append(found, d)
	}
	return found, nil
}

// IORate divides a limit on the sum between the two directions: the kernel has no limit on the sum, and accepts no rate below 2
// (tg_set_limit).
func IORate(n uint64) uint64 { return max(n/2, 2) }

// Events counts how often limits were reached.
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
