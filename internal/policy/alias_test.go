package policy_test

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// A rule also applies to the aliases of its path.
func TestAliases(t *testing.T) {
	const r, rw, all = policy.Read, policy.Read | policy.Write, policy.AllCaps
	open := policytest.Path("/", all)
	builtIn := func(r policy.FSRule) policy.FSRule { r.Position.File = "preset:x"; return r }
	restricted := func(rules ...policy.FSRule) policy.SourceLayer {
		return policy.SourceLayer{
			FS: rules, Protect: policy.ProtectOn, Protected: []policy.FSRule{policytest.Match("/**/.git/hooks", 0), policytest.Match("/**/.vscode", 0)},
			Secrets: policy.ProtectOn, SecretFiles: []policy.FSRule{policytest.Match("/**/.ssh", 0), policytest.Match("/**/.config/gh", 0), policytest.Match("/**/*.pub", r)},
		}
	}
	for _, x := range []struct {
		name   string
		mounts string
		layer  policy.SourceLayer
		path   string
		want   policy.Caps
	}{
		{"a folder", "/secret /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/secret", 0)}}, "/mnt/f", 0},
		{"the folder itself", "/secret /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/secret", 0)}}, "/mnt", 0},
		{"next to it", "/secret /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/secret", 0)}}, "/mnts", all},
		{"a folder beneath", "/secret/sub /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/secret", 0)}}, "/mnt/f", 0},
		{"granted by the other name", "/secret/sub /w", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/w", rw), policytest.Path("/secret", r)}}, "/w/f", r},
		{"a file", "/secret/f /w/x", policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", rw), policytest.Path("/secret", 0)}}, "/w/x", 0},
		{"a folder around", "/data /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/data/secret", 0)}}, "/mnt/secret/f", 0},
		{"next to one in it", "/data /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/data/secret", 0)}}, "/mnt/f", all},
		{"a pattern in it", "/data /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Match("/data/**/*.pem", 0)}}, "/mnt/x.pem", 0},
		{"a rule about the mount", "/data /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt", 0)}}, "/data/f", 0},
		{"a rule above the mount", "/data /mnt/x", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt", 0)}}, "/data/f", all},
		{"a rule that covers both names", "/data/home /home", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", r), policytest.Path("/home/u", rw)}}, "/home/u/f", rw},
		{"a rule about a folder around the mount, in it", "/ /mnt/x", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt", 0), policytest.Path("/mnt/x", r)}}, "/mnt/x/mnt/f", 0},
		{"an exception", "/data /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/data", 0), policytest.Path("/data/public", r)}}, "/mnt/public/f", r},
		{"a pattern as an exception", "/data /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/data", 0), policytest.Match("/**/*.pub", r)}}, "/mnt/x.pub", r},
		{"a built-in rule", "/usr/src /w", policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", rw), builtIn(policytest.Path("/usr", policy.Read|policy.Execute))}}, "/w/f", rw},
		{"just a rule beneath", "/secret /mnt", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/mnt/f", rw), policytest.Path("/secret", r)}}, "/mnt/f", r},
		{"just a pattern beneath", "/secret /mnt", policy.SourceLayer{FS: []policy.FSRule{policytest.Match("/mnt/d/**/f", rw), policytest.Path("/secret", r)}}, "/mnt/d/f", r},
		{"three names", "/data /mnt, /data /srv", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt", rw), policytest.Path("/srv", policy.Read|policy.Execute)}}, "/data/f", r},
		{"names within names", "/data /mnt, /data/sub /srv", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt", rw), policytest.Path("/srv", policy.Read|policy.Execute)}}, "/data/sub/f", r},
		{"a file system twice", "2 / /mnt, 2 /sub /srv", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt/sub", r)}}, "/srv/f", r},
		{"two file systems", "2 / /mnt, 3 / /srv", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt", r)}}, "/srv/f", all},
		{"a hidden mount", "/data /mnt, 2 / /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt", r)}}, "/data/f", all},
		{"mounts behind a mount", "/data /mnt/x, 2 / /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt/x", r)}}, "/data/f", all},
		{"a name behind a mount", "/data/x /mnt, 2 / /data", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/data", r)}}, "/mnt/f", all},
		{"nothing is there any more", "/data//deleted /mnt", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/data", r)}}, "/mnt/f", all},
		{"another namespace", "net:[4026531840] /mnt, net:[4026531840] /srv", policy.SourceLayer{FS: []policy.FSRule{open, policytest.Path("/mnt", r)}}, "/srv", all},
		{"toolguard's own files", "/etc /mnt", policy.SourceLayer{FS: []policy.FSRule{open}}, "/mnt/toolguard/policy.d", policy.Read | policy.Execute},
		{"protected in part", "/w/.git /mnt", restricted(open), "/mnt/hooks/post-commit", policy.Read | policy.Execute},
		{"protected", "/w/.vscode/x /mnt", restricted(open), "/mnt/f", policy.Read | policy.Execute},
		{"protected under both", "/w /mnt", restricted(open, policytest.Unprotected(policytest.Path("/mnt/.vscode", all))), "/mnt/.vscode/f", all},
		{"unprotected", "/w/.git /mnt", restricted(open, policytest.Unprotected(policytest.Path("/w/.git/hooks", rw))), "/mnt/hooks/f", rw},
		{"unprotected, except where a pattern decides", "/w /w/d/.vscode", restricted(policytest.Unprotected(policytest.Path(".", all)), policytest.Match("**/a", rw)), "/w/a", r},
		{"unprotected, next to that", "/w /w/d/.vscode", restricted(policytest.Unprotected(policytest.Path(".", all)), policytest.Match("**/a", rw)), "/w/b", all},
		{"secret in part", "/w/.config /mnt", restricted(open), "/mnt/gh/hosts.yml", policy.Write},
		{"secret", "/w/.ssh/x /mnt", restricted(open), "/mnt/f", policy.Write},
		{"secret, but an exception", "/w/.ssh /mnt", restricted(open), "/mnt/x.pub", all},
		{"secret under both", "/w /mnt", restricted(open, policytest.Secret(policytest.Path("/mnt/.ssh", all))), "/mnt/.ssh/f", all},
		{"a secret with an exception", "/w/.config /mnt", restricted(open, policytest.Secret(policytest.Path("/w/.config/gh", rw))), "/mnt/gh/f", rw},
		{"a secret with an exception elsewhere", "/w/.config /mnt", restricted(open, policytest.Secret(policytest.Path("/mnt/gh", rw))), "/mnt/gh/f", policy.Write},
		{"protected, and a secret", "/w/.vscode /mnt, /w/.ssh /mnt", restricted(open), "/mnt/f", policy.Write},
		{"unprotected elsewhere", "/w/.git /mnt", restricted(open, policytest.Unprotected(policytest.Path("/mnt/hooks", rw))), "/mnt/hooks/f", r},
	} {
		sys := fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w": "dir"}), Table: fspathtest.Mount(strings.Split(x.mounts, ", ")...)}
		c := policytest.CompileOn(t, sys, x.layer)
		if got := c.Caps(x.path); got != x.want {
			t.Errorf("%s: %s on %s, want %s\n%s", x.name, got, x.path, x.want, rulesOf(c))
		}
	}
}

// Explain names the alias, and the suggestion for a denial allows.
func TestAliasesAreExplained(t *testing.T) {
	sys := fspathtest.Mounted{
		Tree:  fspathtest.New(map[string]string{"/w": "dir", "/secret/sub/f": "file", "/mnt/f": "file"}),
		Table: fspathtest.Mount("/secret/sub /mnt"),
	}
	layer := policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", policy.AllCaps), policytest.Path("/secret", policy.Read)}}
	c := policytest.CompileOn(t, sys, layer)
	q := explain.Question{Resource: policy.FS, Caps: policy.Update, Target: "/mnt/f"}
	v, a := explain.Ask(c, sys, q)
	if v.Allow || a.Reason != policy.RuleDenies || a.Rule.ID != "fs.2" || a.Rule.Position.Line != 2 || a.Also != "/secret/sub/f" {
		t.Errorf("%+v, by %+v", a, a.Rule)
	}
	if want := "[[access.fs]]\npath = \"/secret/sub/f\"\nread = true\nupdate = true\n"; a.Suggest != want {
		t.Errorf("suggested:\n%s", a.Suggest)
	}
	e := explain.Explain(c, sys, q)
	if n := len(e.Layers); n != 2 || e.Layers[1].Also != "/secret/sub/f" || e.Layers[1].Allow || e.Layers[1].Candidates[0].Rule != a.Rule {
		t.Errorf("%+v", e.Layers)
	}
	if e := explain.Explain(c, sys, explain.Question{Resource: policy.FS, Caps: policy.Update, Target: "/w/f"}); len(e.Layers) != 1 {
		t.Errorf("no explanation expected: %+v", e.Layers)
	}
	layer.FS = append(layer.FS, policytest.Path("/secret/sub/f", policy.Read|policy.Update))
	c = policytest.CompileOn(t, sys, layer)
	if v, a := explain.Ask(c, sys, q); !v.Allow {
		t.Errorf("with the rule that was suggested: %+v", a)
	}
}

func TestHardLinks(t *testing.T) {
	layer := policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Path("/secret/f", policy.Read), policytest.Path("/secret/g", 0), policytest.Path("/secret/g2", policy.AllCaps)}}
	sys := fspathtest.Mounted{
		Tree: fspathtest.New(map[string]string{
			"/w/x": "file", "/w/y": "file", "/w/z": "file", "/secret/f": "file", "/secret/g": "file", "/secret/g2": "file",
			"/w/h": "file", "/secret/h": "file", "/w/i": "file", "/secret/i": "file",
		}),
		Table: fspathtest.Mount("2 /d /mnt"), Inodes: map[string]uint64{
			"/secret/f": 7, "/w/x": 7, "/mnt/f": 7, "/secret/g": 8, "/secret/g2": 8, "/w/y": 8, "/w/z": 9,
			"/w/h": 10, "/secret/h": 10, "/w/i": 11, "/secret/i": 11,
		},
	}
	sys.Tree["/mnt/f"] = "file"
	builtIn := policytest.Path("/secret/h", policy.Read)
	builtIn.Position.File = "preset:x"
	layer.FS = append(layer.FS, policytest.Path("/mnt", policy.AllCaps), policytest.Path("/secret/i", 0), policytest.Path("/secret/i", policy.Read), builtIn)
	c := policytest.CompileOn(t, sys, layer)
	for _, x := range []struct {
		path string
		want policy.Caps
	}{
		{"x", policy.Read},
		{"y", 0},
		{"z", policy.Read | policy.Write},
		{"new", policy.Read | policy.Write},
		{".", policy.Read | policy.Write},
		{"h", policy.Read | policy.Write}, // a built-in rule removes nothing
		{"i", policy.Read},                // of two rules on one path the last counts
		{"/secret/f", policy.Read},
		{"/secret/g2", 0},
		{"/mnt/f", policy.AllCaps}, // the same number in another file system
	} {
		for want := policy.Read; want <= policy.Execute; want <<= 1 {
			v, a := explain.Ask(c, sys, explain.Question{Resource: policy.FS, Caps: want, Target: x.path})
			if v.Allow != (want&x.want != 0) {
				t.Errorf("%s %s: %+v", want, x.path, v)
			}
			if !v.Allow && x.path == "x" && want&policy.Write != 0 && (a.Rule.ID != "fs.2" || a.Also != "/secret/f") {
				t.Errorf("%+v, by %+v", a, a.Rule)
			}
		}
	}
	for _, k := range c.Links {
		if k.Dev != 8<<20 {
			t.Errorf("%+v isn't known by its file system", k)
		}
	}
	e := explain.Explain(c, sys, explain.Question{Resource: policy.FS, Caps: policy.Update, Target: "x"})
	if n := len(e.Layers); n != 2 || e.Layers[1].Also != "/secret/f" || e.Layers[1].Allow || e.Layers[1].Reason != policy.RuleDenies {
		t.Errorf("%+v", e.Layers)
	}
	for _, x := range []struct {
		old, new string
		want     policy.Reason
	}{
		{"x", "new", policy.RuleDenies}, // not deleted
		{"z", "x", policy.RuleDenies},   // not replaced
		{"z", "new", policy.Allowed},
	} {
		m, err := c.Moving(sys, x.old, x.new, false)
		childtest.Must(t, err)
		if v := c.CheckRename(m); v.Reason != x.want {
			t.Errorf("%s to %s: %+v", x.old, x.new, v)
		}
	}
	for old, want := range map[string]policy.Reason{"x": policy.Allowed, "y": policy.RuleDenies, "z": policy.Allowed} {
		m, err := c.Moving(sys, old, "new", false)
		childtest.Must(t, err)
		if v := c.CheckLink(m); v.Reason != want {
			t.Errorf("one more link of %s: %+v", old, v)
		}
	}
}

// The files in a directory gain nothing by its aliases when it's moved.
func TestAliasesGainNothing(t *testing.T) {
	sys := fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w": "dir"}), Table: fspathtest.Mount("/data /w/b")}
	c := policytest.CompileOn(t, sys, policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", policy.AllCaps), policytest.Path("/data/s/key", 0), policytest.Match("/data/**/*.pem", 0)}})
	for _, x := range []struct {
		old, new string
		want     policy.Reason
	}{
		{"/w/b/s", "/w/b/t", policy.NoGain}, // a rule lies beneath its other name
		{"/w/b/x", "/w/b/s", policy.NoGain}, // and would
		{"/w/b/x", "/w/c/x", policy.NoGain}, // it would lose its other name, and the pattern with it
		{"/w/c/x", "/w/b/x", policy.NoGain}, // what is made where nothing is denied would come to where it is
		{"/v/x", "/w", policy.NoGain},
		{"/w", "/v", policy.NoGain},         // so would what is beneath it
		{"/w/b/x", "/w/b/y", policy.NoGain}, // which rules hold to its other name isn't asked
		{"/w/c/x", "/w/c/y", policy.Allowed},
	} {
		if v := c.CheckRename(policy.Move{Old: x.old, New: x.new, OldDir: true}); v.Reason != x.want {
			t.Errorf("%s to %s: %+v", x.old, x.new, v)
		}
	}
	for old, want := range map[string]policy.Reason{"/w/b/x.pem": policy.RuleDenies, "/w/b/x": policy.Allowed} {
		if v := c.CheckLink(policy.Move{Old: old, New: "/w/x"}); v.Reason != want {
			t.Errorf("%s: %+v", old, v)
		}
	}
}

// noLook is a machine whose files can't be looked up.
type noLook struct {
	fspathtest.Mounted
	at string
}

var errNoLook = errors.New("no look")

func (n noLook) Mounts() ([]fspath.Mount, error) {
	if n.at == "" {
		return nil, errNoLook
	}
	return nil, &fs.PathError{Op: "open", Path: "/proc/self/mountinfo", Err: fs.ErrPermission} // as in a session within another one
}

func (n noLook) File(p string) (id fspath.FileID, links uint64, err error) {
	if p == n.at {
		return id, 0, &fs.PathError{Op: "lstat", Path: p, Err: errNoLook}
	}
	return n.Mounted.File(p)
}

// A policy whose aliases can't be determined doesn't compile.
func TestUnknownAliases(t *testing.T) {
	for at, want := range map[string]string{
		"":     "test: can't determine which paths have aliases by bind mounts: no look",
		"/w/f": "p.toml:1:1: fs.1: can't determine whether /w/f has several hard links: lstat /w/f: no look",
	} {
		sys := noLook{fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w/f": "file"})}, at}
		_, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: []policy.FSRule{policytest.Path("f", policy.Read)}}), sys)
		if err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A path that can't be resolved is denied; aliases that no rule concerns make no difference.
func TestTooManyAliases(t *testing.T) {
	var lines []string
	rules := []policy.FSRule{policytest.Path("/data/x", 0)}
	for i := range 40 {
		at := "/mnt" + strings.Repeat("z", i)
		lines, rules = append(lines, "/data "+at), append(rules, policytest.Path(at+"/x", 0))
	}
	sys := fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w": "dir"}), Table: fspathtest.Mount(lines...)}
	if c, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: rules[:1]}), sys); err != nil || len(c.Aliases) != 40 {
		t.Error(err)
	}
	_, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: rules}), sys)
	if err == nil || !strings.Contains(err.Error(), "have 1640 aliases by bind mounts (for example, /") {
		t.Error(err)
	}
}

// Folders of toolguard that this user can't reach are no error.
func TestOwnNotForUser(t *testing.T) {
	sys := noPermission{fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w/f": "file"})}}
	if _, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: []policy.FSRule{policytest.Path("f", policy.Read)}}), sys); err != nil {
		t.Error(err)
	}
}

// noPermission is a machine on which /sys/fs/bpf is root's alone.
type noPermission struct{ fspathtest.Mounted }

func (n noPermission) File(p string) (id fspath.FileID, links uint64, err error) {
	if strings.HasPrefix(p, "/sys/fs/bpf") {
		return id, 0, &fs.PathError{Op: "lstat", Path: p, Err: fs.ErrPermission}
	}
	return n.Mounted.File(p)
}
