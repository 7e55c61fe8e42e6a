package darwin_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
)

// Secrets and protected files stay so in the private TMPDIR: a folder with them could be moved there, or made there and moved into the workspace.
func TestTmpDir(t *testing.T) {
	const dir = "/private/var/folders/x/T/toolguard-1"
	c, err := policy.Compile(&policy.Source{
		Name: "p", Workspace: "/Users/me/ws", Home: "/Users/me", TmpDir: dir,
		Layers: []policy.SourceLayer{{
			Authority: policy.Session, FS: []policy.FSRule{{Path: ".", Caps: policy.AllCaps}},
			Runtime: []policy.FSRule{{
				Path: dir, Caps: policy.AllCaps, Secret: true, Unprotect: true, Optional: true, Position: policy.Position{File: "builtin:runtime", Line: 1},
			}},
			Protect: policy.ProtectOn, Protected: []policy.FSRule{{Match: "/**/.envrc"}},
			Secrets: policy.ProtectOn, SecretFiles: []policy.FSRule{{Match: "/**/.env"}},
		}},
	}, fspathtest.New(map[string]string{"/Users/me/ws": "dir", dir: "dir"}))
	childtest.Must(t, err)
	p := render(t, c)
	d := newDecider(t, p)
	for want, list := range map[bool][]string{
		true:  {"file-read-data a", "file-write-create a", "process-exec a", "file-write-unlink a/", "file-read-data .envrc"},
		false: {"file-read-data .env", "file-read-data a/.env", "file-write-create .envrc", "file-write-data .envrc"},
	} {
		for _, x := range list {
			op, name, _ := strings.Cut(x, " ")
			for _, folder := range []string{dir, "/var/folders/x/T/toolguard-1", "/Users/me/ws"} {
				if got := d.allows(op, folder+"/"+name); got != want {
					t.Errorf("%s in %s: %v", x, folder, got)
				}
			}
		}
	}
	if !slices.ContainsFunc(p.Report, func(r policy.Enforceability) bool { return r.ID == "runtime.1" && r.Stricter }) {
		t.Error("the rule of the TMPDIR isn't reported as stricter")
	}
}
