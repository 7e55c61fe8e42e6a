package seccomp

import "github.com/toolguard/toolguard/internal/policy"

// Cause is what a refused system call belongs to.
type Cause struct {
	ID       string        // "seccomp.io_uring" for what is always on or in a profile, "syscalls.deny", "net"
	Text     string        // for people: "always on: no io_uring"
	Place    policy.Place  // where the policy says so; zero for what is always on
	Errno    string        // what the caller got: "EPERM"; "SIGSYS" when it was killed
	Resource string        // "syscall", "net" or "fs"
	Reason   policy.Reason // never empty for a known cause
	Suggest  string        // a rule that would allow it, where one is likely what is meant
}
