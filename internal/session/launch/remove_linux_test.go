package launch

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"

	"golang.org/x/sys/unix"
)

// A tree that is deeper than the limits of descriptors and paths is removed, with folders without permissions, names that the removal uses itself,
// and symlinks, whose targets stay.
func TestRemoveDeepTrees(t *testing.T) {
	var old unix.Rlimit
	childtest.Must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	few := unix.Rlimit{Cur: 64, Max: old.Max}
	childtest.Must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &few))
	defer func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &old) }()
	stays := t.TempDir()
	childtest.Must(t, os.WriteFile(filepath.Join(stays, "file"), nil, 0o600))
	dir := filepath.Join(t.TempDir(), "tmp")
	deepTree(t, dir, stays, 1500)
	childtest.Must(t, removeAll(dir))
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	if _, err := os.Stat(filepath.Join(stays, "file")); err != nil {
		t.Error(err)
	}
}

// deepTree makes nested folders with contents that make removal difficult.
func deepTree(t *testing.T, dir, link string, levels int) {
	t.Helper()
	childtest.Must(t, os.Mkdir(dir, 0o700))
	childtest.Must(t, errors.Join(os.WriteFile(dir+"/1", nil, 0o600), os.MkdirAll(dir+"/2/full", 0o700), os.Mkdir(dir+"/3", 0)))
	at, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	childtest.Must(t, err)
	for range levels {
		err := errors.Join(unix.Mkdirat(at, "d", 0o700), unix.Symlinkat(link, at, "link"))
		next, oerr := unix.Openat(at, "d", unix.O_PATH|unix.O_CLOEXEC, 0)
		unix.Close(at)
		childtest.Must(t, errors.Join(err, oerr))
		at = next
	}
	defer unix.Close(at)
	childtest.Must(t, errors.Join(unix.Mkdirat(at, "shut", 0o700), unix.Mkdirat(at, "shut/in", 0), unix.Fchmodat(at, "shut", 0, 0)))
}
