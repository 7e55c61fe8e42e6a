package policyfile

import (
	"os"
	"testing"
)

// A folder's links are the folders in it, and no other names.
func TestMachineFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/in", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/a", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(dir+"/a", dir+"/b"); err != nil {
		t.Fatal(err)
	}
	m := Machine{}
	if _, n, err := m.File(dir); n != 1 || err != nil {
		t.Error(n, err)
	}
	a, n, err := m.File(dir + "/a")
	b, _, _ := m.File(dir + "/b")
	if n != 2 || err != nil || a != b {
		t.Error(n, err, a, b)
	}
}
