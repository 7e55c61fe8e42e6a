package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadLimits(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	path := filepath.Join(t.TempDir(), "toolguardd.toml")
	if l, err := ReadLimits(path); err != nil || l != DefaultLimits {
		t.Errorf("without a file: %+v, %v", l, err)
	}
	some := DefaultLimits
	some.Sessions, some.Lines = 5, 7
	for _, x := range []struct {
		text, wrong string
		mode        os.FileMode
		want        Limits
	}{
		{"", "", 0o644, DefaultLimits},
		{"[user]\nsessions = 5\nlines = 7\n", "", 0o600, some},
		{"[user]\nsesions = 5\n", ":2:1: there is no such key", 0o644, Limits{}},
		{"[user]\nsessions = \"5\"\n", ":2:12: ", 0o644, Limits{}},
		{"[user]\nbodies = 5\n", ":2:1: there is no such key", 0o644, Limits{}},
		{"[user\n", ":1:", 0o644, Limits{}},
		{"[user]\nsessions = 0\n", "at least 1", 0o644, Limits{}},
		{"", "nobody else can write", 0o666, Limits{}},
	} {
		if err := os.WriteFile(path, []byte(x.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, x.mode); err != nil {
			t.Fatal(err)
		}
		l, err := ReadLimits(path)
		if l != x.want || (err == nil) != (x.wrong == "") || err != nil && !strings.Contains(err.Error(), x.wrong) {
			t.Errorf("%q: %+v, %v", x.text, l, err)
		}
	}
	if err := os.Symlink(path, path+".link"); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLimits(path + ".link"); err == nil {
		t.Error("a symlink is followed")
	}
}
