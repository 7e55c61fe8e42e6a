package backend

import (
	"slices"

	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// byBubblewrap is the backend of bubblewrap's namespaces, with Landlock and system call filters within.
func byBubblewrap() (Backend, error) {
	abi, err := LandlockABI()
	if err != nil {
		return Backend{}, err
	}
	return Backend{
		name:  "bwrap",
		gaps:  landlock.StatedGaps(abi),
		Level: abi,
		Wrap: func(c *policy.Compiled) (*launch.Wrapper, error) {
			return &launch.Wrapper{Path: "/usr/bin/bwrap", Args: func(inner []string) []string {
				return append([]string{"bwrap", "--bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-pid", "--die-with-parent", "--"}, inner...)
			}}, nil
		},
		report: func(_ *Backend, c *policy.Compiled) []policy.Enforceability {
			rows := reportRings(c, landlock.Report(c, abi), seccomp.Backend{ABI: abi})
			return slices.Concat(rows, reportEnv(c), reportLimits(c), reportCgroup(c), reportAudit(c, "bwrap", "bubblewrap doesn't report executions"))
		},
	}, nil
}
