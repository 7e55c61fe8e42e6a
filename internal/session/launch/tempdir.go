package launch

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// MakeTempDir makes the private TMPDIR of a session, accessible to its owner alone, and returns its canonical path. Its name begins with prefix.
// remove removes it with its contents, without following symlinks.
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

// tmpBase returns the folder of TMPDIRs: the user's, unless it is beneath the current folder, which probably is the workspace: the grants of the
// workspace would apply to the TMPDIR, too.
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

// within reports whether path is dir or beneath it.
func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
