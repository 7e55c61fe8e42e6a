package landlock

import (
	"os"
	"syscall"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// TestPathCreatedLater checks that a path that is created after the policy was compiled is granted as the kind of file that it is.
func TestPathCreatedLater(t *testing.T) {
	version := abi(t)
	for what, put := range map[string]func(string) error{
		"nothing":  func(string) error { return nil },
		"a file":   func(p string) error { return os.WriteFile(p, nil, 0o666) },
		"a folder": func(p string) error { return os.Mkdir(p, 0o777) },
	} {
		ws := makeWorkspace(t)
		path := ws + "/rw/new"
		plan := mustPlan(compileAt(t, ws, policy.SourceLayer{FS: []policy.FSRule{rule("rw/new", r|w)}}), version)
		childtest.Must(t, put(path))
		op, want := "read "+path, syscall.Errno(0)
		switch what {
		case "nothing":
			want = syscall.ENOENT
		case "a folder":
			op = "create " + path + "/file"
		}
		if got := inChild(t, os.Getuid(), plan, op); got[op] != want {
			t.Errorf("%s: %s: %v, want %v", what, op, got[op], want)
		}
	}
}
