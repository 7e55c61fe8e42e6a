package bubblewrap

import (
	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/mounts"
)

// StatedGaps returns the accesses that this backend can't see or deny under any policy, with Landlock's ABI within. Gaps that deny too much are
// last.
func StatedGaps(abi int) []string {
	return append(append(landlock.StatedGaps(abi), mounts.StatedGaps...),
		"denies too much: for ordinary users, files of other users and groups appear as nobody's, and setuid programs change no user")
}
