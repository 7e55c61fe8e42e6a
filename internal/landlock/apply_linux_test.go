package landlock

import (
	"os"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// TestMissingPath holds that what has come where nothing was is granted as what it is.
func TestMissingPath(t *testing.T) {
	version := abi(t)
	for what, put := range map[string]func(string) error{
		"nothing":  func(string) error { return nil },
		"a file":   func(p string) error { return os.WriteFile(p, nil, 0o666) },
		"a folder": func(p string) error { return os.Mkdir(p, 0o777) },
	} {
		ws := workspace(t)
		path := ws + "/rw/new"
		plan := whole(compileAt(t, ws, policy.SourceLayer{FS: []policy.FSRule{rule("rw/new", r|w)}}), version)
		childtest.Must(t, put(path))
		deed, want := "read "+path, syscall.Errno(0)
		switch what {
		case "nothing":
			want = syscall.ENOENT
		case "a folder":
			deed = "create " + path + "/file"
		}
		if got := inChild(t, os.Getuid(), plan, deed); got[deed] != want {
			t.Errorf("%s: %s: %v, want %v", what, deed, got[deed], want)
		}
	}
}
