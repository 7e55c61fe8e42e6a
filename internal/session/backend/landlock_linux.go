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
		cover: func(_ *Backend, c *policy.Compiled) []policy.Coverage {
			rows := net.cover(c, landlock.Cover(c, abi))
			rows = append(coverRings(c, rows, seccomp.Backend{ABI: abi, Net: net.Enforces()}), coverEnv(c)...)
			rows = append(append(rows, coverLimits(c)...), coverCgroup(c)...)
			return append(rows, coverAudit(c, "landlock", "Landlock tells nobody what is executed")...)
		},
	}, nil
}

// LandlockABI is the kernel's Landlock version, or an error that says what is missing.
func LandlockABI() (int, error) {
	abi, _, err := landlock.Probe()
	if err != nil {
		return 0, fmt.Errorf("the landlock backend can't be used here: %w", err)
	}
	return abi, nil
}

// coverRings says of the rows about system calls that io_uring stays refused, if so.
func coverRings(c *policy.Compiled, rows []policy.Coverage, o seccomp.Backend) []policy.Coverage {
	if seccomp.DeniesRings(c, o) {
		for i, row := range rows {
			if row.ID == "syscalls" || strings.HasSuffix(row.ID, ".syscalls") {
				rows[i].Why = seccomp.RingsDenied
			}
		}
	}
	return rows
}

func coverCgroup(c *policy.Compiled) []policy.Coverage {
	if !NeedsCgroup(c.Limits) {
		return nil
	}
	return cgroup.Report(c, cgroup.Probe())
}

func NeedsCgroup(l policy.Limits) bool {
	return l.Memory.N != 0 || l.Pids.N != 0 || l.CPU.N != 0 || l.IO.N != 0
}
