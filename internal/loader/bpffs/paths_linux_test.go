package bpffs

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// A folder that another user can write to, or replace, isn't accepted as root's.
func TestFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	for name, x := range map[string]struct {
		prepare func(path string) error
		ours    bool
	}{
		"absent":       {func(string) error { return nil }, true},
		"root's":       {func(p string) error { return os.Mkdir(p, 0o700) }, true},
		"readable":     {func(p string) error { _ = os.Mkdir(p, 0o700); return os.Chmod(p, 0o750) }, false},
		"another's":    {func(p string) error { _ = os.Mkdir(p, 0o700); return os.Chown(p, 65534, 65534) }, false},
		"a file":       {func(p string) error { return os.WriteFile(p, nil, 0o600) }, false},
		"a symlink":    {func(p string) error { return os.Symlink("root's", p) }, false},
		"in nothing/x": {func(string) error { return nil }, false},
	} {
		path := filepath.Join(dir, name)
		childtest.Must(t, x.prepare(path))
		if err := Folder(path); (err == nil) != x.ours {
			t.Errorf("%s: %v", name, err)
		}
		if err := Own(path); (err == nil) != x.ours {
			t.Errorf("%s: %v", name, err)
		}
	}
}
