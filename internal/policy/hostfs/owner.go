package hostfs

import (
	"fmt"
	"os"
	"strings"
)

// overflow is the owner that the kernel shows for files whose owner has no ID in the user namespace (user_namespaces(7)), unless
// /proc/sys/kernel/overflowuid has been changed.
const overflow = 65534

// OwnedByRoot reports whether the owner of a file is root. In a user namespace where root has no ID, as in bubblewrap's, its files are
// the overflow user's: no process in that namespace can make such a file.
func OwnedByRoot(uid uint32) bool { return uid == 0 || uid == overflow && hasOverflow() }

// hasOverflow reports whether all files of the overflow user belong to users outside of this user namespace, of which this process isn't one.
func hasOverflow() bool {
	text, err := os.ReadFile("/proc/self/uid_map")
	if err != nil || os.Getuid() == overflow || os.Geteuid() == overflow {
		return false
	}
	for line := range strings.Lines(string(text)) {
		var first, outside, n uint64
		if _, err := fmt.Sscan(line, &first, &outside, &n); err != nil || first <= overflow && overflow-first < n {
			return false
		}
	}
	return true
}
