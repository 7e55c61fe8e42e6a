package cgroup

import (
	"math"

	"github.com/toolguard/toolguard/internal/policy"
)

// limit is a limit of [limits] that needs a cgroup.
type limit struct {
	id         string
	controller string
	set        bool
	position   policy.Position
	note       string // for people, if it is enforced
}

// cgroupLimits lists the limits that a cgroup enforces.
func cgroupLimits(l policy.Limits) []limit {
	return []limit{
		{"limits.memory", "memory", l.Memory.N != 0, l.Memory.Position, "memory and page cache of all processes together, without swap"},
		{"limits.pids", "pids", l.Pids.N != 0, l.Pids.Position, "processes and threads together"},
		{"limits.cpu", "cpu", l.CPU.N != 0, l.CPU.Position, ""},
		{
			"limits.io", "io", l.IO.N != 0, l.IO.Position,
			"half of it for reading and half for writing, on every disk there is at the start",
		},
	}
}

// Report returns the enforceability of each limit of the policy that needs a cgroup.
func Report(c *policy.Compiled, f Support) []policy.Enforceability {
	var rows []policy.Enforceability
	for _, l := range cgroupLimits(c.Limits) {
		if l.set {
			rows = append(rows, reportLimit(l, c.Limits, f))
		}
	}
	return rows
}

func reportLimit(l limit, limits policy.Limits, f Support) policy.Enforceability {
	row := policy.Enforceability{ID: l.id, Position: l.position, By: "cgroup", Status: policy.NotEnforceable, Why: f.Why}
	switch {
	case f.Base == "" || !f.Has(l.controller):
		if row.Why == "" {
			row.Why = "no cgroup v2 controller for " + l.controller
		}
	case l.id == "limits.io" && !f.Has("memory"):
		row.Status = policy.Partly
		row.Why = "without the memory controller, writes through the page cache aren't counted"
	case limits.CPU.N > maxPercent || limits.Memory.N > math.MaxInt64 || limits.Pids.N > MaxPids:
		row.Why = "the number is larger than the kernel accepts"
	default:
		row.Status, row.Why = policy.Enforced, l.note
	}
	return row
}

// The largest numbers that are passed to the kernel.
const (
	maxPercent = 1 << 20
	MaxPids    = 1 << 22 // PID_MAX_LIMIT
)
