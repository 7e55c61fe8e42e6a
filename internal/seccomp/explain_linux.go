package seccomp

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Explain returns why the filters denied a system call. archID and nr are as in the audit record. args may be nil, as seccomp
// records don't have them; then the cause of a call with conditions is general. ok is false for a call that these filters don't
// deny.
func Explain(c *policy.Compiled, o Backend, archID uint32, nr int, args *[6]uint64) (cause Cause, ok bool) {
	m, err := native()
	if err != nil {
		return Cause{}, false
	}
	if archID != m.auditArch() {
		return killCause(fmt.Sprintf("always on: no foreign architecture (%#x)", archID)), true
	}
	if nr > newest && nr&x32Bit != 0 {
		return killCause("always on: no x32 system calls"), true
	}
	name := Name(archID, nr)
	rules, err := denials(c, o)
	if err != nil {
		return Cause{}, false
	}
	for _, r := range rules {
		if r.name == name && name != "" && r.matches(args) {
			return r.explain(requirementsOf(c, o), args), true
		}
	}
	if nr > newest || nr < 0 {
		return Cause{
			ID: "seccomp.newer", Text: "always on: no system calls newer than Linux 6.15",
			Errno: unix.ErrnoName(unix.ENOSYS), Resource: "syscall", Reason: policy.SyscallDenied,
		}, true
	}
	return Cause{}, false
}

func killCause(text string) Cause {
	return Cause{ID: "seccomp.abi", Text: text, Errno: "SIGSYS", Resource: "syscall", Reason: policy.SyscallDenied}
}

func (r denial) matches(args *[6]uint64) bool {
	return r.when == nil || args == nil || slices.ContainsFunc(r.when, func(set all) bool { return set.holds(args) })
}

func (r denial) explain(f requirements, args *[6]uint64) Cause {
	c := *r.Cause
	if args != nil && r.name == "socket" {
		c = f.explainSocket(args)
	}
	c.Errno = unix.ErrnoName(r.errno)
	c.Resource = cmp.Or(c.Resource, "syscall")
	c.Reason = cmp.Or(c.Reason, policy.SyscallDenied)
	return c
}

// Arch returns the AUDIT_ARCH_ value of a denied call without a record of it. killed is whether the call ended its process, which
// the filters of this package do only for foreign architectures and x32.
func Arch(nr int, killed bool) uint32 {
	m, err := native()
	switch {
	case err != nil:
		return 0
	case !killed || m == amd64 && nr&x32Bit != 0:
		return m.auditArch()
	case m == arm64:
		return archARM
	}
	return archI386
}
