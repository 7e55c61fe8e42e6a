package session

import (
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/policy"
)

var built = []string{"landlock"}

// automatic is the best backend that this build and this machine have.
func automatic() (backend, error) {
	b, _, err := named("landlock")
	return b, err
}

func named(name string) (b backend, ok bool, err error) {
	if name != "landlock" {
		return backend{}, false, nil
	}
	abi, err := landlockABI()
	if err != nil {
		return backend{}, true, err
	}
	return backend{
		name: "landlock",
		gaps: landlock.StatedGaps(abi),
		cover: func(c *policy.Compiled) []policy.Coverage {
			rows := slices.Concat(landlock.Cover(c, abi), coverEnv(c), coverLimits(c))
			if needsCgroup(c.Limits) {
				rows = append(rows, cgroup.Cover(c, cgroup.Probe())...)
			}
			return rows
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

func needsCgroup(l policy.Limits) bool {
	return l.Memory.N != 0 || l.Pids.N != 0 || l.CPU.N != 0 || l.IO.N != 0
}
