package hostfs

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// things makes one file of each kind in a folder.
func things(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := errors.Join(
		os.MkdirAll(dir+"/in/deep", 0o755), os.WriteFile(dir+"/a", nil, 0o644), os.Link(dir+"/a", dir+"/in/deep/b"), os.WriteFile(dir+"/program", nil, 0o755),
		os.Symlink("a", dir+"/symlink"), syscall.Mkfifo(dir+"/fifo", 0o755), os.WriteFile(dir+"/big", bytes.Repeat([]byte("mounts\n"), 20_000), 0o644),
	); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestMachineLstat(t *testing.T) {
	dir := things(t)
	for name, want := range map[string]fspath.Kind{"in": fspath.Dir, "a": fspath.File, "program": fspath.Program, "symlink": fspath.Symlink, "fifo": fspath.File} {
		if got, err := (Machine{}).Lstat(filepath.Join(dir, name)); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	// The expected error doesn't allocate.
	for name, want := range map[string]error{"absent": syscall.ENOENT, "a/x": syscall.ENOTDIR} {
		if _, err := (Machine{}).Lstat(filepath.Join(dir, name)); err != want {
			t.Errorf("%s: %#v", name, err)
		}
	}
	name := dir + "/" + strings.Repeat("x", 300)
	if _, err := (Machine{}).Lstat(name); err == nil || err.Error() != "lstat "+name+": file name too long" {
		t.Error(err)
	}
	if m := (Machine{}); !m.Exists(dir+"/a") || m.Exists(dir+"/absent") {
		t.Error("exists")
	}
}

// A folder's link count is the number of folders in it.
func TestMachineFile(t *testing.T) {
	dir, m := things(t), Machine{}
	if _, n, err := m.File(dir); n != 1 || err != nil {
		t.Error(n, err)
	}
	a, n, err := m.File(dir + "/a")
	b, _, _ := m.File(dir + "/in/deep/b")
	if n != 2 || err != nil || a != b {
		t.Error(n, err, a, b)
	}
	want := []fspath.LinkedFile{{Path: dir + "/a", File: a}, {Path: dir + "/in/deep/b", File: a}}
	for root, want := range map[string][]fspath.LinkedFile{dir: want, dir + "/in": want[1:], dir + "/absent": nil, "/proc": nil, "/sys": nil} {
		if got, err := m.Linked(root); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, %v", root, got, err)
		}
	}
	if _, err := m.Linked(dir + "/a/x"); !errors.Is(err, syscall.ENOTDIR) {
		t.Error(err)
	}
}
