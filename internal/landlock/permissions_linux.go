package landlock

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// onlyRootCanChange reports whether only root can change p or create it: p, or the nearest existing folder above it, and all folders up to the
// root are root's and aren't writable for group or others. An access control list that lets another user write shows as group permission
// (acl(5), the mask entry).
func onlyRootCanChange(p string) bool {
	for {
		var st unix.Stat_t
		err := unix.Lstat(p, &st)
		if err != nil && err != unix.ENOENT {
			return false
		}
		if err == nil && (st.Uid != 0 || st.Mode&unix.S_IFMT != unix.S_IFLNK && st.Mode&0o022 != 0) {
			return false
		}
		if p == "/" {
			return true
		}
		p = path.Dir(p)
	}
}

// isRoot reports whether processes that this one starts are root or can become root.
func isRoot() bool { return os.Getuid() == 0 || os.Geteuid() == 0 }
