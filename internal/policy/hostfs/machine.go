package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Machine is this machine: the files that policies are read from, and the file tree that they're compiled for.
type Machine struct{}

// Lstat returns the kind of file at a path. Every session start calls it a hundred times, so it uses the system call and not
// package os, which does far more.
func (Machine) Lstat(path string) (fspath.Kind, error) {
	var st syscall.Stat_t
	_, err := retry(func() (int, error) { return 0, syscall.Lstat(path, &st) })
	switch {
	case errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.ENOTDIR):
		return fspath.File, err // expected: most machines lack some of the paths that the built-in files name
	case err != nil:
		return fspath.File, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	switch mode := uint32(st.Mode); {
	case mode&syscall.S_IFMT == syscall.S_IFLNK:
		return fspath.Symlink, nil
	case mode&syscall.S_IFMT == syscall.S_IFDIR:
		return fspath.Dir, nil
	case mode&syscall.S_IFMT == syscall.S_IFREG && mode&0o111 != 0:
		return fspath.Program, nil
	}
	return fspath.File, nil
}

// File returns which file is at a path.
func (Machine) File(path string) (id fspath.FileID, links uint64, err error) {
	var st syscall.Stat_t
	if _, err := retry(func() (int, error) { return 0, syscall.Lstat(path, &st) }); err != nil {
		return id, 0, &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	links = uint64(st.Nlink)
	if uint32(st.Mode)&syscall.S_IFMT == syscall.S_IFDIR { // the count is of the folders in it
		links = 1
	}
	return fspath.FileID{Dev: uint64(st.Dev), Inode: st.Ino}, links, nil
}

// Readlink returns the text of a symlink.
func (Machine) Readlink(path string) (string, error) { return os.Readlink(path) }
