package explain

import (
	"errors"
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// Scan finds files that have more capabilities under another name, once for each rule.
func TestScan(t *testing.T) {
	files := []fspath.LinkedFile{
		{Path: "/data/a", File: fspath.FileID{Inode: 1}},
		{Path: "/w/a", File: fspath.FileID{Inode: 1}},
		{Path: "/data/b", File: fspath.FileID{Inode: 2}},
		{Path: "/w/b", File: fspath.FileID{Inode: 2}},
		{Path: "/w/c", File: fspath.FileID{Inode: 3}},
		{Path: "/w/d", File: fspath.FileID{Inode: 3}},    // the same under both names
		{Path: "/data/e", File: fspath.FileID{Inode: 4}}, // the other name is elsewhere
		{Path: "/w/f", File: fspath.FileID{Inode: 5}},
		{Path: "/policy", File: fspath.FileID{Inode: 5}}, // toolguard's own
	}
	src := policytest.Source(policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Path("/data", policy.Read), policytest.Path("/data/x", 0)}})
	src.Files = []string{"/policy"}
	c := policytest.CompileSource(t, src, fspathtest.New(map[string]string{"/w": "dir", "/policy": "file"}))
	var asked []string
	linked := func(root string) (out []fspath.LinkedFile, err error) {
		asked = append(asked, root)
		for _, f := range files {
			if fspath.Within(f.Path, root) {
				out = append(out, f)
			}
		}
		return out, nil
	}
	warnings, err := Scan(c, linked)
	var got []string
	for _, w := range warnings {
		got = append(got, w.Position.File+" "+w.Code+" "+w.Msg)
	}
	want := []string{
		"builtin:toolguard hard-link toolguard.6: /policy is also /w/f, by a hard link, which grants read+create+update+delete more",
		"p.toml hard-link fs.2: /data/a is also /w/a, by a hard link, which grants create+update+delete more (and 1 file like it)",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v\n%q\n%q", err, got, want)
	}
	if !slices.Equal(asked, []string{"/data", "/policy", "/w"}) {
		t.Error(asked)
	}
	if _, err := Scan(c, func(string) ([]fspath.LinkedFile, error) { return nil, errors.New("no") }); err == nil {
		t.Error("a folder that can't be looked through is passed by")
	}
}
