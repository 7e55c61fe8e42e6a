package mounts

import "github.com/toolguard/toolguard/internal/policy/fspath"

// Files is the file system that a plan is for.
type Files interface {
	// Lstat returns the kind of file at a path, without following a symlink in its last component.
	Lstat(path string) (fspath.Kind, error)
	// IsSocket reports whether a unix socket is at a path.
	IsSocket(path string) bool
	// List returns at most limit entries of a folder, in any order. It doesn't follow a symlink in its last component.
	List(dir string, limit int) ([]Entry, error)
	// Inode returns what is at a path, and how many hard links it has. It follows no symlinks.
	Inode(path string) (Inode, uint32, error)
}

// Entry is a name in a folder.
type Entry struct {
	Name string
	Kind fspath.Kind
}

// Inode identifies a file or folder, whatever its names are. The same inode is seen through every bind mount of it.
type Inode struct {
	Device, Number uint64
	Birth          int64 // when it was created, in nanoseconds: file systems use the numbers of deleted inodes again; 0: unknown
}
