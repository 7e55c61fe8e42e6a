//go:build linux && amd64

package differential

import (
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// operations of the table, with their flags and the ways to pass paths to them.
var operations = []struct {
	do    string
	flags []int
	by    []string
}{
	{"open", []int{
		unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, 3, unix.O_RDONLY | unix.O_TRUNC, unix.O_RDWR | unix.O_TRUNC, unix.O_RDONLY | unix.O_NOFOLLOW,
		unix.O_DIRECTORY, unix.O_PATH, unix.O_CREAT, unix.O_CREAT | unix.O_WRONLY, unix.O_CREAT | unix.O_RDWR, unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC,
		unix.O_CREAT | unix.O_EXCL | unix.O_WRONLY, unix.O_TMPFILE | unix.O_WRONLY, unix.O_TMPFILE | unix.O_RDWR, unix.O_APPEND | unix.O_WRONLY,
	}, []string{"", "at", "chdir", "proc", "old"}},
	{"open2", []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_CREAT | unix.O_RDWR}, []string{"", "at"}},
	{"reopen", []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, 3, unix.O_RDONLY | unix.O_TRUNC}, []string{"", "at", "fd"}},
	{"truncate", nil, []string{"", "proc", "fd"}},
	{"ftruncate", nil, []string{""}},
	{"mkdir", nil, []string{"", "at", "chdir", "proc", "old"}},
	{"symlink", nil, []string{"", "at", "chdir", "proc", "old"}},
	{"mknod", []int{unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR, unix.S_IFBLK}, []string{"", "at", "old"}},
	{"bind", nil, []string{"", "at", "proc"}},
	{"unlink", nil, []string{"", "at", "chdir", "proc", "old"}},
	{"rmdir", nil, []string{"", "at", "chdir", "proc", "old"}},
	{"rename", []int{0, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE, unix.RENAME_WHITEOUT}, []string{"", "at", "proc", "old", "older"}},
	{"rename", []int{0, 0, 0, unix.RENAME_NOREPLACE, unix.RENAME_EXCHANGE}, []string{"", "at", "proc", "old"}},
	{"rename", []int{0, unix.RENAME_EXCHANGE}, []string{""}},
	{"link", []int{0, unix.AT_SYMLINK_FOLLOW}, []string{"", "at", "proc", "old"}},
	{"link_fd", []int{unix.AT_EMPTY_PATH, unix.AT_SYMLINK_FOLLOW}, []string{"", "at"}},
	{"link_tmp", nil, []string{""}},
	{"chmod", nil, []string{"", "at", "old", "new", "fd"}},
	{"fchmod", nil, []string{""}},
	{"chown", []int{0, unix.AT_SYMLINK_NOFOLLOW}, []string{"", "at", "old"}},
	{"chown", []int{0}, []string{"fd"}},
	{"fchown", nil, []string{""}},
	{"utimes", []int{0, unix.AT_SYMLINK_NOFOLLOW}, []string{"", "at", "old", "older"}},
	{"utimes", []int{0}, []string{"fd"}},
	{"futimes", nil, []string{""}},
	{"setxattr", nil, []string{"", "proc", "new", "fd"}},
	{"lsetxattr", nil, []string{""}},
	{"fsetxattr", nil, []string{""}},
	{"removexattr", nil, []string{"", "new"}},
	{"lremovexattr", nil, []string{""}},
	{"fremovexattr", nil, []string{""}},
	{"setacl", nil, []string{"", "fd"}},
	{"removeacl", nil, []string{""}},
	{"setflags", nil, []string{""}},
	{"connect", []int{0, 1}, []string{"", "at"}},
	{"send", nil, []string{"", "at"}},
	{"execve", nil, []string{"", "proc", "fd"}},
	{"execveat", []int{0, unix.AT_EMPTY_PATH}, []string{"", "proc"}},
	{"map", nil, []string{"", "at"}},
	{"mprotect", nil, []string{""}},
	{"watch", []int{0, unix.IN_DONT_FOLLOW}, []string{"", "proc"}},
	{"stat", []int{0, unix.AT_SYMLINK_NOFOLLOW}, []string{"", "at"}},
	{"access", []int{unix.R_OK, unix.W_OK}, []string{"", "at"}},
	{"readlink", nil, []string{"", "at", "old", "chdir", "proc"}},
	{"readlink", []int{unix.AT_EMPTY_PATH}, []string{"", "at"}},
}

// needsNothing are the operations that need no capability.
var needsNothing = map[string]bool{"stat": true, "access": true}

// makes are the operations that need a new name, and moves those that need a second one.
var (
	makes = []string{"mkdir", "symlink", "mknod", "bind"}
	moves = []string{"rename", "link", "link_fd", "link_tmp"}
)

// wanted are the types of files that some operations need.
var wanted = map[string]uint32{
	"connect": unix.S_IFSOCK, "send": unix.S_IFSOCK, "rmdir": unix.S_IFDIR, "readlink": unix.S_IFLNK,
	"execve": unix.S_IFREG | 0o100, "execveat": unix.S_IFREG | 0o100, "map": unix.S_IFREG, "mprotect": unix.S_IFREG,
	"truncate": unix.S_IFREG, "ftruncate": unix.S_IFREG, "removexattr": unix.S_IFREG, "lremovexattr": unix.S_IFREG, "fremovexattr": unix.S_IFREG,
}

// alters reports whether an operation may change the results of others: it changes names or permissions.
func alters(o operation) bool {
	switch o.Do {
	case "open", "open2":
		return o.Flags&unix.O_CREAT != 0
	case "unlink", "rmdir", "chmod", "fchmod", "setxattr", "lsetxattr", "fsetxattr", "removexattr", "lremovexattr", "fremovexattr",
		"setacl", "removeacl":
		return true
	}
	return slices.Contains(makes, o.Do) || slices.Contains(moves, o.Do)
}

// changes reports whether an operation with the policy's decision may alter anything. A denied one doesn't, except for an open
// that creates a file and may not read it.
func changes(o operation, w want) bool {
	return alters(o) && (!w.refuses() || o.Do == "open" || o.Do == "open2")
}

// randomOperation returns a random operation.
func (s *scene) randomOperation() operation {
	kind := operations[s.r.IntN(len(operations))]
	o := operation{Do: kind.do, By: kind.by[s.r.IntN(len(kind.by))]}
	if len(kind.flags) > 0 {
		o.Flags = kind.flags[s.r.IntN(len(kind.flags))]
	}
	find := s.present
	if kind, ok := wanted[o.Do]; ok && s.r.IntN(2) == 0 {
		find = func() string { return s.of(kind) }
	}
	if slices.Contains(makes, o.Do) || (o.Do == "open" || o.Do == "open2") && o.Flags&unix.O_CREAT != 0 {
		find = s.missing
	}
	o.Path = s.preferFound(find)
	if slices.Contains(moves, o.Do) {
		find = s.missing
		if o.Flags == unix.RENAME_EXCHANGE && o.Do == "rename" {
			find = s.present
		}
		o.Path2 = s.preferFound(find)
	}
	if o.Do == "mprotect" && onOverlay(o.Path) { // a stated gap: too much is denied there
		o.Do = "map"
	}
	return o
}

func onOverlay(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.OVERLAYFS_SUPER_MAGIC
}

// preferFound returns a name from find in most cases, else another one.
func (s *scene) preferFound(find func() string) string {
	if s.r.IntN(8) > 0 {
		return find()
	}
	return s.fresh()
}

// present returns an existing name, but not the top of the tree.
func (s *scene) present() string {
	for range 50 {
		if path := s.name(); path != s.root && there(path) {
			return path
		}
	}
	return s.fresh()
}

// of returns a name of a file of a type.
func (s *scene) of(mode uint32) string {
	var st unix.Stat_t
	for range 20 {
		path := s.name()
		if unix.Lstat(path, &st) == nil && st.Mode&unix.S_IFMT == mode&unix.S_IFMT && st.Mode&mode == mode {
			return path
		}
	}
	return s.present()
}

// missing returns a missing name in an existing folder, and adds it to the names.
func (s *scene) missing() string {
	for range 50 {
		if path := s.fresh(); len(path) < 3000 && folder(filepath.Dir(path)) && !there(path) {
			s.names = append(s.names, path)
			return path
		}
	}
	return s.fresh()
}
