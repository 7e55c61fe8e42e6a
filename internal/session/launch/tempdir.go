package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// MakeTempDir makes the private TMPDIR of a session, readable by its owner alone, and returns its canonical path. Its name begins with prefix. remove
// deletes it with all that the session left in it; it never follows a symlink out of it, whatever the command put there.
func MakeTempDir(prefix string) (dir string, remove func() error, err error) {
	base, err := filepath.Abs(tmpBase())
	if err != nil {
		return "", nil, fmt.Errorf("make the private TMPDIR: %w", err)
	}
	made, err := os.MkdirTemp(base, prefix)
	if err != nil {
		return "", nil, fmt.Errorf("the session's private TMPDIR can't be made: %w; set TMPDIR to a folder that can be written and has space", err)
	}
	dir, err = filepath.EvalSymlinks(made)
	if err != nil {
		_ = os.Remove(made)
		return "", nil, fmt.Errorf("resolve the private TMPDIR: %w", err)
	}
	return dir, func() error { return removeAll(dir) }, nil
}

// tmpBase is where TMPDIRs are made: where the user's are, unless that is beneath the current folder. That is the
// workspace, most likely, and what it grants would hold for the TMPDIR too.
func tmpBase() string {
	first := os.TempDir()
	dir, err := os.Getwd()
	if err != nil {
		return first
	}
	for _, base := range []string{first, "/var/tmp", os.Getenv("XDG_RUNTIME_DIR")} {
		real, err := filepath.EvalSymlinks(base)
		if err == nil && !within(real, dir) && unix.Access(real+"/.", unix.W_OK|unix.X_OK) == nil {
			return base
		}
	}
	return first
}

// within says whether path is dir or beneath it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
