package firejail

import (
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
	"github.com/toolguard/toolguard/internal/policy"
)

// Name is the name of the backend, and the mechanism in its rows.
const Name = "firejail"

// Report reports how far firejail with the mounts of a plan, Landlock with that ABI and the system call filters within enforce each rule of
// c, for which the plan was made with PlanOptions.
func Report(c *policy.Compiled, p *mounts.Plan, abi int) []policy.Enforceability {
	p.Reject(reject)
	return p.Report(landlock.Report(c, abi), Name, abi)
}
