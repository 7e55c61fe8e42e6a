//go:build linux

package bpf

import "testing"

// The kernel's own files are files like others: what root may do with them is what the policy says.
func TestKernelFiles(t *testing.T) {
	const open = "exec 3>>/proc/sysrq-trigger && exec 3>>/proc/sys/kernel/core_pattern && echo open"
	for _, x := range []struct {
		policy string
		row
	}{
		{`default = { fs = "allow" }`, row{"where all files may be written", open, 0, ""}},
		{`default = { fs = "deny" }`, row{"where none may", open, 2, "outside_workspace update /proc/sysrq-trigger"}},
	} {
		x.run(t, workspace(t, "version = 1\n[access]\n"+x.policy+"\n[[access.env]]\nname = \"*\"\nread = true\n"))
	}
}
