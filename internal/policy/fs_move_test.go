package policy_test

import (
	"fmt"
	"path"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

func TestRename(t *testing.T) {
	const r, rw, all = policy.Read, policy.Read | policy.Write, policy.AllCaps
	sub := policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", rw), policytest.Path("ro", r), policytest.Path("in", policy.Read|policy.Create), policytest.Path("a/b/secret", 0), policytest.Path("noup", policy.Read|policy.Create|policy.Delete)}}
	match := policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", rw), policytest.Path("/other", rw), policytest.Match("**/.env", 0), policytest.Match("**/.git/hooks", r), policytest.Match("base/**/key", r)}}
	restricted := policy.SourceLayer{
		FS: []policy.FSRule{policytest.Path(".", rw), policytest.Path("/other", rw), policytest.Unprotected(policytest.Path("mine", rw))}, Protect: policy.ProtectOn,
		Protected: []policy.FSRule{policytest.Match("**/.git/hooks", 0), policytest.Match("**/.envrc", 0)},
	}
	lifted := policy.SourceLayer{
		FS: []policy.FSRule{policytest.Unprotected(policytest.Path(".", rw)), policytest.Match("**/*.pem", rw)}, Protect: policy.ProtectOn, Protected: []policy.FSRule{policytest.Match("**/.vscode", 0)},
	}
	secrets := func(rules ...policy.FSRule) policy.SourceLayer {
		return policy.SourceLayer{
			FS:      append([]policy.FSRule{policytest.Path(".", all), policytest.Path("/other", all), policytest.Secret(policytest.Path("mine", all)), policytest.Match("/**/open", r)}, rules...),
			Secrets: policy.ProtectAuto, SecretFiles: []policy.FSRule{policytest.Match("/**/.ssh", 0), policytest.Match("/**/.config/gh", 0), policytest.Match("/**/.env", 0), policytest.Match("/**/*.pub", r)},
		}
	}
	x := func(old, new string) policy.Move { return policy.Move{Old: old, New: new} }
	dir := func(old, new string) policy.Move { return policy.Move{Old: old, New: new, OldDir: true} }
	over := func(old, new string) policy.Move { return policy.Move{Old: old, New: new, NewExists: true} }
	swap := func(old, new string) policy.Move {
		return policy.Move{Old: old, New: new, NewExists: true, Exchange: true}
	}
	for _, c := range []struct {
		layer policy.SourceLayer
		move  policy.Move
		want  policy.Reason
	}{
		{sub, x("/w/x", "/w/y"), policy.Allowed},
		{sub, x("/w/x", "/w/x"), policy.Allowed},
		{sub, x("/w/ro/x", "/w/y"), policy.RuleDenies},    // no delete on the old name
		{sub, x("/w/x", "/w/ro/y"), policy.RuleDenies},    // no create on the new one
		{sub, x("/w/x", "/w/in/y"), policy.Allowed},       // into a folder that allows less
		{sub, over("/w/x", "/w/in/y"), policy.RuleDenies}, // replacing needs update
		{sub, over("/w/x", "/w/y"), policy.Allowed},
		{sub, over("/w/x", "/w/noup/y"), policy.RuleDenies},
		{sub, x("/w/noup/x", "/w/y"), policy.NoGain}, // it would gain update
		{sub, x("/w/x", "/w/noup/y"), policy.Allowed},
		{sub, swap("/w/x", "/w/y"), policy.Allowed},
		{sub, swap("/w/x", "/w/noup/y"), policy.RuleDenies},
		{sub, dir("/w/d", "/w/e"), policy.Allowed},
		{sub, dir("/w/a", "/w/e"), policy.NoGain}, // a literal rule beneath
		{sub, dir("/w/a/b", "/w/e"), policy.NoGain},
		{sub, dir("/w/d", "/w/a"), policy.NoGain}, // a literal rule beneath the new name
		{sub, dir("/w/a/c", "/w/e"), policy.Allowed},
		{match, x("/w/x", "/w/.env"), policy.RuleDenies},
		{match, x("/w/.env", "/w/x"), policy.RuleDenies},
		{match, dir("/w/.git", "/w/git"), policy.NoGain}, // part of a match
		{match, dir("/w/git", "/w/.git"), policy.NoGain},
		{match, dir("/w/d/.git", "/w/e/.git"), policy.NoGain},
		{match, dir("/w/d", "/w/e"), policy.Allowed},
		{match, dir("/w/d", "/other/d"), policy.NoGain}, // leaves the BASE of a match that denies
		{match, x("/w/d", "/other/d"), policy.Allowed},  // a file has nothing beneath
		{match, dir("/w/base/d", "/w/d"), policy.NoGain},
		{match, dir("/w/base", "/w/d"), policy.NoGain}, // the BASE itself
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", rw), policytest.Match("up/base/**/key", r)}}, dir("/w/up", "/w/d"), policy.NoGain},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", rw), policytest.Match("up/base/**/key", r)}}, dir("/w/d", "/w/up"), policy.NoGain},
		{match, dir("/other/d", "/w/d"), policy.NoGain}, // could bring a .env in
		{restricted, x("/w/x", "/w/.envrc"), policy.Protected},
		{secrets(), x("/w/.env", "/w/x"), policy.NoGain}, // it would gain read
		{secrets(), x("/w/.env", "/w/x/.env"), policy.Allowed},
		{secrets(), x("/w/.env", "/w/x.pub"), policy.NoGain}, // to an exception
		{secrets(), x("/w/x", "/w/.env"), policy.Allowed},
		{secrets(), x("/w/.env", "/w/mine/.env"), policy.NoGain}, // to an exception
		{secrets(), x("/w/mine/.env", "/w/.env"), policy.Allowed},
		{secrets(), swap("/w/x", "/w/.env"), policy.NoGain},
		{secrets(), dir("/w/d", "/other/d"), policy.Allowed},
		{secrets(), dir("/w/.ssh", "/w/d"), policy.NoGain}, // the files beneath aren't secret any more
		{secrets(), dir("/w/.ssh", "/w/d/.ssh"), policy.Allowed},
		{secrets(), dir("/w/.ssh/d", "/w/.ssh/e"), policy.Allowed},
		{secrets(), dir("/w/.ssh/d", "/w/.ssh/d.pub"), policy.NoGain},
		{secrets(), dir("/w/d", "/w/.ssh"), policy.Allowed},
		{secrets(), dir("/w/.config", "/w/c"), policy.NoGain}, // part of a match
		{secrets(), dir("/w/d", "/w/mine/d"), policy.NoGain},  // its files are exceptions there
		{secrets(), dir("/w/mine/d", "/w/d"), policy.Allowed},
		{secrets(policytest.Path(".ssh", policy.Write), policytest.Path("d", policy.Write)), dir("/w/.ssh/a", "/w/d/a"), policy.NoGain}, // open would be readable beneath
		{restricted, x("/w/x", "/w/mine/.envrc"), policy.Allowed},
		{restricted, dir("/w/.git", "/w/g"), policy.NoGain},
		{restricted, dir("/w/g", "/w/.git"), policy.NoGain},
		{restricted, dir("/w/d", "/w/mine/d"), policy.NoGain}, // protect would be lifted for the files beneath
		{restricted, dir("/w/mine/d", "/w/d"), policy.NoGain}, // could bring in an .envrc
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", rw), policytest.Path("up", policy.Read|policy.Update)}}, policy.Move{Old: "/w/d", New: "/w/up/e", OldDir: true, NewExists: true, NewDir: true}, policy.NoGain},
		{restricted, dir("/w/d", "/other/d"), policy.NoGain},
		{restricted, dir("/w/d", "/w/e"), policy.Allowed},
		{lifted, dir("/w/.vscode", "/w/d"), policy.NoGain}, // protected in part although most of it is unprotected
		{lifted, dir("/w/d", "/w/.vscode"), policy.NoGain},
		{lifted, dir("/w/d", "/w/e"), policy.Allowed},
		{lifted, dir("/w/.vscode/d", "/w/.vscode/e"), policy.Allowed},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", all)}}, dir("/etc", "/e"), policy.NoGain}, // toolguard's own files beneath
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", all)}}, x("/etc/toolguard/p", "/w/p"), policy.Protected},
	} {
		if v := policytest.Compile(t, c.layer).CheckRename(c.move); v.Reason != c.want {
			t.Errorf("%+v: %+v, want %s", c.move, v, c.want)
		}
	}
}

func TestRenameExchangeOfDirectories(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Path("a/b", policy.Read)}})
	move := policy.Move{Old: "/w/f", New: "/w/a", NewExists: true, NewDir: true, Exchange: true}
	if v := c.CheckRename(move); v.Reason != policy.NoGain {
		t.Errorf("the directory that comes back isn't judged: %+v", v)
	}
	move.New = "/w/c"
	if v := c.CheckRename(move); !v.Allow {
		t.Errorf("a plain exchange: %+v", v)
	}
}

func TestLink(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Path("ro", policy.Read), policytest.Path("blind", policy.Write), policytest.Path("drop", policy.Create)}})
	for _, x := range []struct {
		old, new string
		want     policy.Reason
	}{
		{"/w/x", "/w/y", policy.Allowed},
		{"/w/ro/x", "/w/y", policy.NoGain},
		{"/w/x", "/w/ro/y", policy.RuleDenies},
		{"/w/blind/x", "/w/y", policy.RuleDenies},
		{"/w/x", "/w/drop/y", policy.Allowed},
		{"/etc/passwd", "/w/y", policy.NoRule},
	} {
		if v := c.CheckLink(policy.Move{Old: x.old, New: x.new}); v.Reason != x.want {
			t.Errorf("%s -> %s: %+v, want %s", x.old, x.new, v, x.want)
		}
	}
}

// disk is a small file Tree: path to identity; directories too.
type disk struct {
	at  map[string]int
	dir map[int]bool
}

func (d *disk) paths() []string {
	var out []string
	for p := range d.at {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}

// rename moves old and everything beneath it to new, and replaces the files there.
func (d *disk) rename(old, new string) {
	moved := map[string]int{}
	for p, id := range d.at {
		if fspath.Within(p, old) {
			moved[new+p[len(old):]] = id
			delete(d.at, p)
		}
	}
	for p := range d.at {
		if fspath.Within(p, new) {
			delete(d.at, p)
		}
	}
	for p, id := range moved {
		d.at[p] = id
	}
}

func (d *disk) exchange(a, b string) {
	const aside = "/aside"
	d.rename(a, aside)
	d.rename(b, a)
	d.rename(aside, b)
}

// No sequence of allowed renames adds a capability that a file lacked one step before, nor puts a file at a name
// beneath a moved directory where it couldn't have been created.
func TestRenamesNeverGain(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	moved := 0
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := policytest.GenLayers(t)
		for i := range layers { // so that a good part of the renames is allowed
			layers[i].FS = append([]policy.FSRule{policytest.Path("/", policy.AllCaps)}, layers[i].FS[:min(3, len(layers[i].FS))]...)
		}
		c := policytest.CompileOn(t, sys, layers...)
		d := disk{at: map[string]int{}, dir: map[int]bool{}}
		for i := range 12 {
			words := policytest.NaiveWords(policytest.GenPath(t, "file"))
			for n := 1; n <= len(words); n++ {
				at := "/" + strings.Join(words[:n], "/")
				if _, ok := d.at[at]; !ok {
					d.at[at] = i*100 + n
				}
				d.dir[d.at[at]] = d.dir[d.at[at]] || n < len(words)
			}
		}
		for range 15 {
			paths := d.paths()
			old := rapid.SampledFrom(paths).Draw(t, "old")
			new := rapid.SampledFrom(paths).Draw(t, "new")
			if rapid.Bool().Draw(t, "new name") {
				new += "/" + policytest.SomeNames.Draw(t, "name")
			}
			if moveOne(t, c, &d, old, new) {
				moved++
			}
		}
	})
	if moved == 0 {
		t.Error("no rename was allowed: nothing was tested")
	}
}

func moveOne(t *rapid.T, c *policy.Compiled, d *disk, old, new string) bool {
	id, there := d.at[new]
	m := policy.Move{Old: old, New: new, OldDir: d.dir[d.at[old]], NewExists: there, NewDir: there && d.dir[id]}
	m.Exchange = there && rapid.Bool().Draw(t, "exchange")
	parent, inDir := d.at[path.Dir(new)]
	if path.Dir(new) != "/" && (!inDir || !d.dir[parent]) || fspath.Within(new, old) || fspath.Within(old, new) || !c.CheckRename(m).Allow {
		return false
	}
	before := map[int]string{}
	for p, id := range d.at {
		before[id] = p
	}
	if m.Exchange {
		d.exchange(old, new)
	} else {
		d.rename(old, new)
	}
	for p, id := range d.at {
		was := before[id]
		if more := c.Caps(p) &^ c.Caps(was); more != 0 {
			t.Fatalf("%+v: what was %s with %s gains %s at %s\n%s", m, was, c.Caps(was), more, p, rulesOf(c))
		}
		if was != p && was != old && was != new && c.Caps(was)&policy.Create != 0 && c.Caps(p)&policy.Create == 0 && (m.OldDir || m.NewDir) {
			if fspath.Within(was, old) && c.Caps(new)&policy.Create != 0 {
				t.Fatalf("%+v: %s couldn't be created, but %s was moved there\n%s", m, p, was, rulesOf(c))
			}
		}
	}
	return true
}

func TestMovingLooksAtTheMachine(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read|policy.Write)}})
	for _, x := range []struct{ old, new, want string }{
		{"src", "tests", "{/w/src /w/tests true true true false {0 0} {0 0}}"},
		{"link", "new", "{/w/link /w/new false false false false {0 0} {0 0}}"},
		{"link/lib.rs", "README.md", "{/w/src/lib.rs /w/README.md false true false false {0 0} {0 0}}"},
	} {
		m, err := c.Moving(policytest.Machine(), x.old, x.new, false)
		if got := fmt.Sprint(m); err != nil || got != x.want {
			t.Errorf("%s to %s: %s %v, want %s", x.old, x.new, got, err, x.want)
		}
	}
}

func rulesOf(c *policy.Compiled) string {
	var b strings.Builder
	for _, r := range c.Rules {
		fmt.Fprintf(&b, "%s %s\n", r.ID, explain.RuleText(r))
	}
	return b.String()
}
