package fspath

// FileSystem is all that compiling and checking need of the machine: the shape of its file tree.
// Errors are those of package os, so errors.Is with io/fs's sentinels works.
type FileSystem interface {
	// Lstat returns the kind of file at an absolute path, without following a symlink in its last component.
	Lstat(path string) (Kind, error)
	// Readlink is the text of a symlink.
	Readlink(path string) (string, error)
	// Mounts are the mounts that this process sees. It's called while other calls are under way. Without the permission to look the error is fs.ErrPermission.
	Mounts() ([]Mount, error)
	// File is which file is at a path, seen as Lstat does, and how many hard links it has: a directory one.
	File(path string) (id FileID, links uint64, err error)
}

// FileID identifies a file, whatever its names are: the numbers of its device and its inode (stat(2)).
type FileID struct{ Dev, Inode uint64 }

// LinkedFile is a file with several hard links, by one of its names.
type LinkedFile struct {
	Path string
	File FileID
}

// Kind is the type of a file, as far as a policy depends on it.
type Kind uint8

// The kinds.
const (
	File Kind = iota // anything that isn't a directory or a symlink
	Dir
	Symlink
	Program // a regular file with an execute permission
)
