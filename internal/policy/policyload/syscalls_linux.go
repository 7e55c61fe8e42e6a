package policyload

import (
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// checkSyscalls checks the names of system calls in a policy, which only Linux has.
func checkSyscalls(c *policy.Compiled) error { return seccomp.Validate(c) }
