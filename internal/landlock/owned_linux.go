package landlock

import (
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// rootsAlone reports whether only root can change p or create it: it, or the nearest folder above that exists, and
// every folder up to the root belong to root, and neither group nor others may write there. An access control list that lets
// another user write shows up as a group's right to write (acl(5), the mask entry).
func rootsAlone(p string) bool {
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

// isRoot reports whether what this process starts has root's rights to files, or could take them.
func isRoot() bool { return os.Getuid() == 0 || os.Geteuid() == 0 }
