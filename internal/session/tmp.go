package session

import (
	"fmt"
	"os"
	"path/filepath"
)

// MakeTmp makes the private TMPDIR of a session, readable by its owner alone, and returns its canonical path. remove
// deletes it with all that the session left in it; it never follows a symlink out of it (os.RemoveAll works with
// openat), whatever the command put there.
func MakeTmp() (dir string, remove func() error, err error) {
	made, err := os.MkdirTemp("", "toolguard-")
	if err != nil {
		return "", nil, fmt.Errorf("make the private TMPDIR: %w", err)
	}
	dir, err = filepath.EvalSymlinks(made)
	if err != nil {
		_ = os.Remove(made)
		return "", nil, fmt.Errorf("resolve the private TMPDIR: %w", err)
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}
