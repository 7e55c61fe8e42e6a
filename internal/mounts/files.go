package mounts

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// Files is the file system that a plan is for.
type Files interface {
	// Lstat returns the kind of file at a path, without following a symlink in its last component.
	Lstat(path string) (fspath.Kind, error)
	// IsSocket reports whether a unix socket is at a path.
	IsSocket(path string) bool
	// List returns at most limit entries of a folder, in any order. It doesn't follow a symlink in its last component.
	List(dir string, limit int) ([]Entry, error)
}

// Entry is a name in a folder.
type Entry struct {
	Name string
	Kind fspath.Kind
}

// Host is the file system of this machine.
type Host struct{ hostfs.Machine }

// IsSocket reports whether a unix socket is at a path.
func (Host) IsSocket(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.Mode()&fs.ModeSocket != 0
}

// List returns entries of a folder.
func (Host) List(dir string, limit int) ([]Entry, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := f.ReadDir(limit)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	entries := make([]Entry, len(list))
	for i, e := range list {
		entries[i] = Entry{e.Name(), kindOf(e.Type())}
	}
	return entries, err
}

func kindOf(mode fs.FileMode) fspath.Kind {
	switch {
	case mode.IsDir():
		return fspath.Dir
	case mode&fs.ModeSymlink != 0:
		return fspath.Symlink
	}
	return fspath.File
}
