// Package bpf tests the bpf backend through the real binary, in virtual machines (make vm-test): which programs may be executed, with which
// arguments, the exit statuses, and the event that names rule and line; and README.md's example session. What else a session tries is
// in test/attacks, test/differential and internal/loader.
package bpf
