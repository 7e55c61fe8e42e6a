package session

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
)

var built = []string{"bpf", "landlock"}

// automatic is the best backend that this build and this machine have.
func automatic(daemon string) (backend, error) {
	if b, ok, err := remote(daemon); ok || err != nil {
		return b, err
	}
	if os.Geteuid() == 0 {
		if b, err := bpf(false); err == nil {
			return b, nil
		}
	}
	b, _, err := named("landlock", "none")
	return b, err
}

// instead says how a user whose sessions toolguardd could hold gets it to, or root's right to do without it.
func instead(b backend, name, daemon string) string {
	_, _, err := remote("require")
	switch {
	case os.Geteuid() == 0 || b.name != "landlock":
		return ""
	case name == b.name:
		return "leave out --backend landlock, so that toolguardd decides, or run it as root"
	case daemon == "none":
		return "leave out --daemon none, so that toolguardd decides, or run it as root"
	case err != nil:
		return fmt.Sprintf("have toolguardd decide, or run it as root (%v)", errors.Unwrap(err))
	}
	return ""
}

func named(name, daemon string) (b backend, ok bool, err error) {
	switch name {
	case "bpf":
		if b, ok, err := remote(daemon); ok || err != nil {
			return b, true, err
		}
		b, err := bpf(true)
		return b, true, err
	case "landlock":
		if daemon == "require" {
			return backend{}, true, errors.New("toolguardd has no part in the landlock backend: leave one of --backend and --daemon out")
		}
	default:
		return backend{}, false, nil
	}
	abi, err := landlockABI()
	if err != nil {
		return backend{}, true, err
	}
	net := &network{}
	return backend{
		name:  "landlock",
		net:   net,
		gaps:  landlock.StatedGaps(abi),
		level: abi,
		cover: func(c *policy.Compiled) []policy.Coverage {
			rows := net.cover(c, landlock.Cover(c, abi))
			return slices.Concat(coverRings(c, rows, seccomp.Others{ABI: abi, Net: net.held()}), coverEnv(c), coverLimits(c), coverCgroup(c), coverAudit(c, "landlock", "Landlock tells nobody what is executed"))
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
func coverRings(c *policy.Compiled, rows []policy.Coverage, o seccomp.Others) []policy.Coverage {
	if seccomp.RefusesRings(c, o) {
		for i, row := range rows {
			if row.ID == "syscalls" || strings.HasSuffix(row.ID, ".syscalls") {
				rows[i].Why = seccomp.Unseen
			}
		}
	}
	return rows
}

func coverCgroup(c *policy.Compiled) []policy.Coverage {
	if !needsCgroup(c.Limits) {
		return nil
	}
	return cgroup.Cover(c, cgroup.Probe())
}

func needsCgroup(l policy.Limits) bool {
	return l.Memory.N != 0 || l.Pids.N != 0 || l.CPU.N != 0 || l.IO.N != 0
}
