package landlock

import (
	"errors"

	"github.com/toolguard/toolguard/internal/policy"
)

var errSkeleton = errors.New("not built yet")

// Plan is what Apply will do.
type Plan struct{}

// NewPlan makes the rulesets for c.
func NewPlan(c *policy.Compiled, abi int) (*Plan, error) { return nil, errSkeleton }

// Apply restricts the calling thread.
func (p *Plan) Apply() error { return errSkeleton }

// Cover reports how far Landlock and the system call filters enforce each rule.
func Cover(c *policy.Compiled, abi int) []policy.Coverage { return nil }

// StatedGaps is what this backend can never see.
func StatedGaps(abi int) []string { return nil }

// Probe asks the kernel.
func Probe() (abi, errata int, err error) { return 0, 0, errSkeleton }

// Canary proves that Landlock denies.
func Canary() error { return errSkeleton }
