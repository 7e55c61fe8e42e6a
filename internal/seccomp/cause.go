package seccomp

import "github.com/toolguard/toolguard/internal/policy"

// Cause is why a system call was denied.
type Cause struct {
	ID       string          // "seccomp.io_uring" for a rule that is always on or in a profile, "syscalls.deny", "net"
	Text     string          // for people: "always on: no io_uring"
	Position policy.Position // the position in the policy; zero if it's always on
	Errno    string          // the caller's error: "EPERM"; "SIGSYS" if it was killed
	Resource string          // "syscall", "net" or "fs"
	Reason   policy.Reason   // never empty for a known cause
	Suggest  string          // a rule that would allow it, if a likely one exists
}
