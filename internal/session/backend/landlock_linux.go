package backend

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// byLandlock is the backend of Landlock and system call filters.
func byLandlock() (Backend, error) {
	abi, err := LandlockABI()
	if err != nil {
		return Backend{}, err
	}
	net := &Network{}
	return Backend{
		name:    "landlock",
		Network: net,
		gaps:    landlock.StatedGaps(abi),
		Level:   abi,
		unseen: func(q explain.Question) string {
			if q.Symlink {
				return "landlock doesn't mediate the reading of symlinks"
			}
			return ""
		},
		report: func(_ *Backend, c *policy.Compiled) []policy.Enforceability {
			rows := net.report(c, landlock.Report(c, abi))
			rows = append(reportRings(c, rows, seccomp.Backend{ABI: abi, Net: net.Enforces()}), reportEnv(c)...)
			rows = append(append(rows, reportLimits(c)...), reportCgroup(c)...)
			return append(rows, reportAudit(c, "landlock", "Landlock doesn't report executions")...)
		},
	}, nil
}

// LandlockABI returns the kernel's Landlock version, or an error with what is missing.
func LandlockABI() (int, error) {
	abi, _, err := landlock.Probe()
	if err != nil {
		return 0, fmt.Errorf("the landlock backend can't be used here: %w", err)
	}
	return abi, nil
}

// reportRings notes in the rows of system calls that io_uring stays denied, where it does.
func reportRings(c *policy.Compiled, rows []policy.Enforceability, o seccomp.Backend) []policy.Enforceability {
	if seccomp.DeniesRings(c, o) {
		for i, row := range rows {
			if row.ID == "syscalls" || strings.HasSuffix(row.ID, ".syscalls") {
				rows[i].Why = seccomp.RingsDenied
			}
		}
	}
	return rows
}

func reportCgroup(c *policy.Compiled) []policy.Enforceability {
	if !NeedsCgroup(c.Limits) {
		return nil
	}
	return cgroup.Report(c, cgroup.Probe())
}

func NeedsCgroup(l policy.Limits) bool {
	return l.Memory.N != 0 || l.Pids.N != 0 || l.CPU.N != 0 || l.IO.N != 0
}
