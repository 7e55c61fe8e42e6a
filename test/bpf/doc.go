// Package bpf tests the bpf backend through the real binary, in virtual machines (make vm-test): what may be executed, with which
// arguments, the exit statuses, and the event that names rule and line; and what README.md shows of it. What else a session tries is
// in test/attacks, test/differential and internal/loader.
package bpf
