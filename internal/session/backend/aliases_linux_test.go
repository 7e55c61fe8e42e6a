package backend

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// twice is a machine on which /data is also /mnt, and /ws/a also /data/a.
type twice struct{}

func (twice) Lstat(p string) (fspath.Kind, error) {
	switch p {
	case "/", "/ws", "/data", "/mnt":
		return fspath.Dir, nil
	case "/ws/a", "/data/a", "/mnt/a":
		return fspath.File, nil
	}
	return 0, fs.ErrNotExist
}

func (twice) Readlink(string) (string, error) { return "", fs.ErrInvalid }

func (twice) Mounts() ([]fspath.Mount, error) {
	return []fspath.Mount{{ID: 1, Root: "/", At: "/"}, {ID: 2, Parent: 1, Root: "/data", At: "/mnt"}}, nil
}

func (t twice) File(p string) (fspath.FileID, uint64, error) {
	if strings.HasSuffix(p, "/a") {
		return fspath.FileID{Inode: 7}, 2, nil
	}
	_, err := t.Lstat(p)
	return fspath.FileID{}, 1, err
}

// The BPF programs enforce rules for the aliases that the evaluator knows.
func TestAliases(t *testing.T) {
	const r, w = policy.Read, policy.Write
	for what, rules := range map[string][]policy.FSRule{
		"a bind mount": {{Path: "/mnt", Caps: r | w}, {Path: "/data", Caps: r}},
		"a hard link":  {{Path: "/ws", Caps: r | w}, {Path: "/data/a", Caps: r}},
	} {
		l := policy.SourceLayer{Authority: policy.Session, FS: rules}
		l.Defaults[policy.FS] = policy.Deny
		compiled := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: "/ws", Home: "/ws", Layers: []policy.SourceLayer{l}}, twice{})
		if len(compiled.Links)+len(compiled.Aliases) == 0 {
			t.Errorf("%s: there is no alias", what)
		}
		for _, row := range reportPrograms(compiled, nil) {
			if row.Status != policy.Enforced {
				t.Errorf("%s: %s: %v, %q", what, row.ID, row.Status, row.Why)
			}
		}
	}
}
