package childtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// testingT is the common part of tests, benchmarks and rapid's tests.
type testingT interface {
	Helper()
	Fatal(args ...any)
}

// Must ends a test on an error.
func Must(t testingT, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ReadFile returns the content of a file.
func ReadFile(t testingT, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	Must(t, err)
	return text
}

// TempDir is t.TempDir by its canonical path, which policies have: on macOS the temporary folder is behind a symlink.
func TempDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	Must(t, err)
	return dir
}

// NeedsRoot skips a test that only root can run, for a reason that isn't obvious.
func NeedsRoot(t testing.TB, why ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip(strings.Join(append([]string{"needs root"}, why...), ": "))
	}
}
