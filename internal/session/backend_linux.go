package session

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// Backends are those that this build has.
var Backends = []string{"bpf", "landlock"}

// automatic is the best backend that this build and this machine have.
func automatic(daemon string, asked asking) (backend, error) {
	b, ok, skipped := remote(daemon, asked)
	if ok && daemon != "require" {
		b.without = func() (backend, error) { return automatic("none", asked) }
	}
	if ok || skipped != nil && (daemon == "require" || errors.Is(skipped, api.ErrInterrupted)) {
		return b, skipped
	}
	if os.Geteuid() == 0 {
		b, err := bpf(false)
		if err == nil {
			return b, nil
		}
		if !lacksBPF() && len(proc.ReadShort("/sys/kernel/security/lsm")) > 0 {
			skipped = cmp.Or(skipped, err)
		}
	}
	b, _, err := named("landlock", "none", asked)
	b.skipped = skipped
	return b, err
}

func named(name, daemon string, asked asking) (b backend, ok bool, err error) {
	switch name {
	case "bpf":
		b, ok, err := remote(daemon, asked)
		if ok || err != nil && daemon == "require" {
			return b, true, err
		}
		b, err = bpf(true)
		return b, true, err
	case "landlock":
		if daemon == "require" {
			return backend{}, true, errors.New("toolguardd has no part in the landlock backend: leave --backend landlock out")
		}
	default:
		return backend{}, false, nil
	}
	abi, err := landlockABI()
	if err != nil {
		return backend{}, true, err
	}
	net := &heldNetwork{}
	return backend{
		name:  "landlock",
		net:   net,
		gaps:  landlock.StatedGaps(abi),
		level: abi,
		unseen: func(q explain.Question) string {
			if q.Symlink {
				return "landlock doesn't mediate the reading of symlinks"
			}
			return ""
		},
		cover: func(c *policy.Compiled) []policy.Coverage {
			rows := net.cover(c, landlock.Cover(c, abi))
			rows = append(coverRings(c, rows, seccomp.Backend{ABI: abi, Net: net.held()}), coverEnv(c)...)
			rows = append(append(rows, coverLimits(c)...), coverCgroup(c)...)
			return append(rows, coverAudit(c, "landlock", "Landlock tells nobody what is executed")...)
		},
	}, true, nil
}

// landlockABI is the kernel's Landlock version, or an error that says what is missing.
func landlockABI() (int, error) {
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
	if !needsCgroup(c.Limits) {
		return nil
	}
	return cgroup.Report(c, cgroup.Probe())
}

func needsCgroup(l policy.Limits) bool {
	return l.Memory.N != 0 || l.Pids.N != 0 || l.CPU.N != 0 || l.IO.N != 0
}
