package seccomp

import (
	"errors"

	"github.com/toolguard/toolguard/internal/policy"
)

// Filter is one assembled program.
type Filter struct{}

// Cause is the part of a policy that a refused system call belongs to.
type Cause struct {
	ID    string       // a rule id, "seccomp.io_uring", …
	Text  string       // "always on: io_uring"
	Place policy.Place // zero for what is always on
	Errno string       // "EPERM"
}

var errSkeleton = errors.New("not built yet")

// Filters makes the programs that hold a session to c; abi is the kernel's Landlock ABI.
func Filters(c *policy.Compiled, abi int) ([]Filter, error) { return nil, errSkeleton }

// Load puts the filters on the calling thread.
func Load(filters []Filter) error { return errSkeleton }

// Validate checks what the policy says about system calls.
func Validate(c *policy.Compiled) error { return nil }

// Name is the name of a system call; arch is an AUDIT_ARCH_ value.
func Name(arch uint32, nr int) string { return "" }

// Explain says why a system call is refused; args may be nil when they aren't known.
func Explain(c *policy.Compiled, abi int, arch uint32, nr int, args *[6]uint64) Cause { return Cause{} }
