// Package fspathtest provides file trees in memory for tests.
package fspathtest

import (
	"io/fs"
	"path"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Tree is a file tree in memory: absolute paths to kinds of file. A symlink is "-> text", a directory "dir", a program
// "program", anything else a file, and "unreadable" a directory that may not be searched.
type Tree map[string]string

// New returns a tree with these files, and with the directories that lead to every path.
func New(m map[string]string) Tree {
	t := Tree{"/": "dir"}
	for p, what := range m {
		t[p] = what
		for d := path.Dir(p); d != "/"; d = path.Dir(d) {
			if _, ok := m[d]; !ok {
				t[d] = "dir"
			}
		}
	}
	return t
}

// Lstat returns the kind of file at a path.
func (t Tree) Lstat(p string) (fspath.Kind, error) {
	fail := func(err error) (fspath.Kind, error) { return 0, &fs.PathError{Op: "lstat", Path: p, Err: err} }
	for d := path.Dir(p); d != "/"; d = path.Dir(d) {
		if t[d] == "unreadable" {
			return fail(fs.ErrPermission)
		}
	}
	what, ok := t[p]
	switch {
	case !ok:
		return fail(fs.ErrNotExist)
	case what == "dir" || what == "unreadable":
		return fspath.Dir, nil
	case strings.HasPrefix(what, "-> "):
		return fspath.Symlink, nil
	case what == "program":
		return fspath.Program, nil
	}
	return fspath.File, nil
}

// Readlink returns the text of a symlink.
func (t Tree) Readlink(p string) (string, error) { return strings.TrimPrefix(t[p], "-> "), nil }

// Mounts returns none.
func (Tree) Mounts() ([]fspath.Mount, error) { return nil, nil }

// File returns the same file at every path.
func (t Tree) File(p string) (fspath.FileID, uint64, error) {
	_, err := t.Lstat(p)
	return fspath.FileID{Inode: 1}, 1, err
}
