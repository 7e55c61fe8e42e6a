package firejail

import (
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
)

// StatedGaps returns the accesses that this backend can't see or deny under any policy, with Landlock's ABI within. Gaps that deny too much are
// last.
func StatedGaps(abi int) []string {
	return append(append(landlock.StatedGaps(abi), mounts.StatedGaps...),
		"when toolguard is killed (kill -9), the session continues, under its restrictions but without its wall time: the kernel doesn't end a setuid "+
			"program with its parent",
		"denies too much: programs in /etc and /var can't be executed, and a grant to write in / doesn't include /etc, /usr, /var and /boot",
		"denies too much: firejail covers parts of /proc, /sys, /run and /boot whatever the policy grants, and shows only some users and groups in "+
			"/etc/passwd and /etc/group")
}
