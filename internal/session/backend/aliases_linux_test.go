package backend

import (
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// twice is a machine on which /data is also /mnt, and /ws/a also /data/a.
var twice = fspathtest.Mounted{
	Tree:  fspathtest.New(map[string]string{"/ws/a": "file", "/data/a": "file", "/mnt/a": "file"}),
	Table: fspathtest.Mount("/data /mnt"), Inodes: map[string]uint64{"/ws/a": 7, "/data/a": 7, "/mnt/a": 7},
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
		compiled := policytest.CompileSource(t, &policy.Source{Name: "test", Workspace: "/ws", Home: "/ws", Layers: []policy.SourceLayer{l}}, twice)
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
