package policy_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// whole returns a policy with every kind of rule.
func whole(t testing.TB) *policy.Compiled {
	return policytest.Compile(t,
		policy.SourceLayer{Authority: policy.Host, FS: []policy.FSRule{policytest.Path("/etc", policy.Read)}, Net: []policy.NetRule{policytest.Host("10.0.0.0/8", false)}},
		policy.SourceLayer{
			FS:  []policy.FSRule{policytest.Path(".", policy.Read|policy.Write), policytest.Match("**/*.pem", 0), policytest.Match("src/**/.git/hooks", policy.Read)},
			Net: []policy.NetRule{policytest.Host("*.example.com", true), policytest.Host("::1", true)}, Env: []policy.EnvRule{{Name: "AWS_*", Read: true}},
			Commands: []policy.CommandRule{policytest.Command("git", []string{"status", "**"}), policytest.Command("nowhere")}, Protect: policy.ProtectOn,
			Protected: []policy.FSRule{policytest.Match("**/.git/config", 0)}, Secrets: policy.ProtectAuto, SecretFiles: []policy.FSRule{policytest.Match("/**/.ssh", 0), policytest.Match("/**/*.pub", policy.Read)},
		})
}

// fataler is the common part of *testing.T and *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// roundTrip returns a policy that was written as JSON and read again.
func roundTrip(t fataler, c *policy.Compiled) *policy.Compiled {
	text, err := json.Marshal(c)
	childtest.Must(t, err)
	got := &policy.Compiled{}
	childtest.Must(t, json.Unmarshal(text, got))
	return got
}

// A rule may name a path by a symlink that is too deep to match, or whose name JSON can't represent: the policy compiles, without a rule to
// read that symlink.
func TestJSONLinks(t *testing.T) {
	for _, link := range []string{"/w" + strings.Repeat("/d", fspath.MaxDepth), "/w/\xff"} {
		sys := fspathtest.New(map[string]string{"/w/way": "-> " + link, link: "-> /w/src", "/w/src": "dir"})
		l := policy.SourceLayer{FS: []policy.FSRule{policytest.Path("way", policy.Read)}, Runtime: []policy.FSRule{policytest.Path("/usr", policy.Read)}}
		c := policytest.CompileOn(t, sys, l)
		got := roundTrip(t, c)
		for path, want := range map[string]bool{"/w/src": true, "/w/way": true, link: false} {
			if v := got.CheckFS(path, policy.Read); v.Allow != want {
				t.Errorf("%s: %+v", path, v)
			}
		}
	}
}

// The JSON of a policy is read as the same policy, tables included.
func TestJSON(t *testing.T) {
	c := whole(t)
	if got := roundTrip(t, c); !reflect.DeepEqual(got, c) {
		t.Errorf("it was\n%+v\nand is\n%+v", c, got)
	}
	sys := fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w": "dir"})}
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := policytest.GenLayers(t)
		sys.Table = fspathtest.Mount(genMounts(t)...)
		c := policytest.CompileOn(t, sys, layers...)
		got := roundTrip(t, c)
		for _, path := range append(genAliased(t, sys.Table), policytest.GenPath(t, "path")) {
			if c.CheckFS(path, policy.Read) != got.CheckFS(path, policy.Read) || c.Caps(path) != got.Caps(path) {
				t.Fatalf("%s: %+v was %+v", path, got.CheckFS(path, policy.Read), c.CheckFS(path, policy.Read))
			}
		}
	})
}

// A policy with a name that JSON would change isn't written.
func TestJSONUTF8(t *testing.T) {
	c := whole(t)
	c.Rules[len(c.Rules)-1].Command.Program = "/usr/bin/\xff"
	if _, err := json.Marshal(c); err == nil || !strings.Contains(err.Error(), `"/usr/bin/\xff" isn't UTF-8`) {
		t.Error(err)
	}
}

// UnmarshalJSON rejects a policy that Compile can't have made.
func TestForgedPolicy(t *testing.T) {
	long := strings.Repeat("x", policy.MaxText+1)
	for name, x := range map[string]struct {
		change func(*policy.Wire)
		want   string
	}{
		"nothing":                     {func(*policy.Wire) {}, ""},
		"another rule":                {func(w *policy.Wire) { w.Rules[len(policy.Own)].FS.Caps = policy.AllCaps }, "another version of toolguard"},
		"a rule too many":             {func(w *policy.Wire) { w.Rules = append(w.Rules, w.Rules[0]) }, "tables don't fit"},
		"an alias that is a hole":     {func(w *policy.Wire) { w.Aliases = []fspath.Alias{{From: "/", To: "/b", Holes: []string{""}}} }, "isn't the rest"},
		"a hole that is all":          {func(w *policy.Wire) { w.Aliases = []fspath.Alias{{From: "/", To: "/b", Holes: []string{"/"}}} }, "isn't the rest"},
		"a hole elsewhere":            {func(w *policy.Wire) { w.Aliases = []fspath.Alias{{From: "/", To: "/b", Holes: []string{"x"}}} }, "isn't the rest"},
		"an alias of nothing":         {func(w *policy.Wire) { w.Aliases = []fspath.Alias{{From: "/a", To: "b"}} }, "isn't a canonical path"},
		"a link without a rule":       {func(w *policy.Wire) { w.Links = []policy.Link{{Rule: int32(len(w.Rules))}} }, "tables don't fit"},
		"a link without a layer":      {func(w *policy.Wire) { w.Links = []policy.Link{{Layer: 99}} }, "tables don't fit"},
		"a link of another layer":     {func(w *policy.Wire) { w.Links = []policy.Link{{Layer: 2, Rule: 0}} }, "tables don't fit"},
		"no rule":                     {func(w *policy.Wire) { w.Rules[0] = nil }, "tables don't fit"},
		"a table beyond the rules":    {func(w *policy.Wire) { w.Layers[2].FS.N = 1 << 40 }, "tables don't fit"},
		"a table before them":         {func(w *policy.Wire) { w.Layers[0].FS.First = -1 }, "tables don't fit"},
		"a table of less than none":   {func(w *policy.Wire) { w.Layers[0].FS.N = -1 }, "tables don't fit"},
		"a rule in two tables":        {func(w *policy.Wire) { w.Layers[2].FS.First-- }, "tables don't fit"},
		"a table of another kind":     {func(w *policy.Wire) { w.Layers[1].Net, w.Layers[1].FS = w.Layers[1].FS, w.Layers[1].Net }, "tables don't fit"},
		"a declared one without":      {func(w *policy.Wire) { w.Layers[0].Defaults[policy.Env] = policy.Deny }, "tables don't fit"},
		"no such default action":      {func(w *policy.Wire) { w.Layers[0].Defaults[policy.FS] = 7 }, "tables don't fit"},
		"no such authority":           {func(w *policy.Wire) { w.Layers[0].Authority = policy.NumAuthorities }, "tables don't fit"},
		"a rule without an authority": {func(w *policy.Wire) { w.Rules[0].Authority = policy.NumAuthorities }, "tables don't fit"},
		"a rule of two kinds":         {func(w *policy.Wire) { w.Rules[0].Env = &policy.EnvRule{Name: "A"} }, "tables don't fit"},
		"no resource":                 {func(w *policy.Wire) { w.Rules[0].Resource = policy.NumResources }, "tables don't fit"},
		"a relative path":             {func(w *policy.Wire) { w.Rules[0].FS.Path = "etc" }, "isn't a canonical path"},
		"dots":                        {func(w *policy.Wire) { w.Rules[0].FS.Path = "/etc/../x" }, "isn't a canonical path"},
		"no such capability":          {func(w *policy.Wire) { w.Rules[0].FS.Caps = 0x80 }, "isn't a canonical path"},
		"a pattern for all":           {func(w *policy.Wire) { w.Rules[0].FS.Last = "*" }, "matches every name"},
		"a pattern of two":            {func(w *policy.Wire) { w.Rules[0].FS.Last = "a/b" }, "is no pattern"},
		"a long PATH":                 {func(w *policy.Wire) { w.Path = strings.Repeat("/x:", policy.MaxListed/2) }, "more than 65536"},
		"many long files":             {func(w *policy.Wire) { w.Files = slices.Repeat([]string{long[1:]}, 9) }, "more than 65536"},
		"a nameless variable":         {func(w *policy.Wire) { w.RulesOf(w.Layers[2].Env)[0].Env.Name = "" }, "empty name"},
		"a relative program":          {func(w *policy.Wire) { w.RulesOf(w.Layers[2].Commands)[0].Command.Program = "x" }, "isn't a canonical path"},
		"a relative name":             {func(w *policy.Wire) { w.RulesOf(w.Layers[2].Commands)[0].Command.Name = "x/y" }, "isn't the name of a program"},
		"a program's long name": {func(w *policy.Wire) {
			w.RulesOf(w.Layers[2].Commands)[0].Command.Name = strings.Repeat("x", fspath.MaxPath+1)
		}, "isn't the name of a program"},
		"no workspace":            {func(w *policy.Wire) { w.Workspace = "" }, "isn't a canonical path"},
		"a relative TMPDIR":       {func(w *policy.Wire) { w.TmpDir = "x" }, "isn't a canonical path"},
		"a long name":             {func(w *policy.Wire) { w.Name = long }, "has a name of 8193 bytes"},
		"a rule's long id":        {func(w *policy.Wire) { w.Rules[3].ID = long }, "has a name of 8193 bytes"},
		"a rule's long file":      {func(w *policy.Wire) { w.Rules[3].Position.File = long }, "has a name of 8193 bytes"},
		"a limit's long file":     {func(w *policy.Wire) { w.Limits.FileSize.Position.File = long }, "has a name of 8193 bytes"},
		"system calls' long file": {func(w *policy.Wire) { w.Layers[1].Syscalls.Position.File = long }, "has a name of 8193 bytes"},
		"as long as may be":       {func(w *policy.Wire) { w.Name = long[1:] }, ""},
		"too many layers":         {func(w *policy.Wire) { w.Layers = make(policy.WireLayers, policy.MaxLayers+1) }, "at most 64 layers"},
		"too many aliases": {func(w *policy.Wire) {
			w.Aliases = slices.Repeat([]fspath.Alias{{From: "/a", To: "/b"}}, policy.MaxAliases+1)
		}, "1025 aliases"},
	} {
		w := whole(t).Wire()
		x.change(&w)
		text, err := json.Marshal(w)
		childtest.Must(t, err)
		err = json.Unmarshal(text, &policy.Compiled{})
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: %v, not %q", name, err, x.want)
		}
	}
}

// An intersection allows what both policies allow.
func TestWithin(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		var both [2]*policy.Compiled
		for i := range both {
			layers, _ := policytest.GenLayers(t)
			both[i] = policytest.CompileOn(t, sys, layers...)
		}
		c, err := both[1].Within(both[0])
		childtest.Must(t, err)
		if last := c.Layers[len(c.Layers)-len(both[1].Layers):]; !slices.EqualFunc(last, both[1].Layers, policy.Same) {
			t.Fatal("the order of the inner policy's layers changed: a denial would name another one")
		}
		again, err := c.Within(both[0])
		if err != nil || len(again.Layers) != len(c.Layers) || again.Digest != c.Digest || !again.Includes(both[0]) || !again.Includes(both[1]) {
			t.Fatalf("%d layers are %d within what they are within already, %v", len(c.Layers), len(again.Layers), err)
		}
		for range 20 {
			path := policytest.GenPath(t, "path")
			if again.Caps(path) != c.Caps(path) {
				t.Fatalf("%s: %s, and once more within the same %s", path, c.Caps(path), again.Caps(path))
			}
			if got, want := c.Caps(path), both[0].Caps(path)&both[1].Caps(path); got != want {
				t.Fatalf("%s: %s, not %s", path, got, want)
			}
			v := c.CheckFS(path, policy.Read)
			if v.Rule >= 0 && c.Rules[v.Rule].Authority != c.Layers[v.Layer].Authority {
				t.Fatalf("%s: rule %d isn't one of layer %d", path, v.Rule, v.Layer)
			}
		}
	})
}

// An intersection has both policies' rules for the other resources, too; neither policy changes.
func TestWithinOthers(t *testing.T) {
	inner, outer := whole(t), policytest.Compile(t, policy.SourceLayer{Env: []policy.EnvRule{{Name: "AWS_KEY", Read: true}}, Commands: []policy.CommandRule{policytest.Command("git")}})
	before := roundTrip(t, inner)
	c, err := inner.Within(outer)
	childtest.Must(t, err)
	for _, x := range []struct {
		name string
		want bool
	}{{"AWS_KEY", true}, {"AWS_REGION", false}, {"HOME", false}} {
		if got := c.CheckEnv(x.name).Allow; got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
	for argv, want := range map[string]bool{"git status": true, "git push": false, "python3": false} {
		words := strings.Fields(argv)
		if got := c.CheckCommand("/usr/bin/"+words[0], words).Allow; got != want {
			t.Errorf("%s: %v", argv, got)
		}
	}
	if !reflect.DeepEqual(inner, before) {
		t.Error("it changed the inner policy")
	}
	if got := roundTrip(t, c); !reflect.DeepEqual(got, c) {
		t.Error("the JSON of the intersection differs")
	}
}

// forged returns a policy that Compile doesn't make but UnmarshalJSON accepts: the layers of c in any order and number, with layers
// between them that have empty tables.
func forged(t *rapid.T, c *policy.Compiled) *policy.Compiled {
	from := c.Wire()
	w := from
	w.Rules, w.Layers, w.Links = nil, nil, nil
	for range rapid.IntRange(0, 8).Draw(t, "layers") {
		i := rapid.IntRange(-1, len(from.Layers)-1).Draw(t, "layer")
		if i < 0 {
			empty := policy.WireLayer{Layer: policy.Layer{Authority: policy.Session}, FS: &policy.Run{}}
			empty.Defaults[policy.FS] = policy.Allow
			w.Layers = append(w.Layers, empty)
			continue
		}
		l := from.Layers[i]
		for _, table := range []**policy.Run{&l.FS, &l.Protect, &l.Secrets, &l.Net, &l.Env, &l.Commands} {
			if *table == nil || **table == (policy.Run{}) {
				continue
			}
			r := **table
			*table = &policy.Run{len(w.Rules), r.N}
			for _, rule := range from.RulesOf(&r) {
				own := *rule
				w.Rules = append(w.Rules, &own)
			}
		}
		if l.FS != nil && l.FS.N > 0 && rapid.IntRange(0, 9).Draw(t, "link") == 9 {
			w.Links = append(w.Links, policy.Link{Rule: int32(l.FS.First), Layer: int16(len(w.Layers)), File: fspath.FileID{Inode: 7}})
		}
		w.Layers = append(w.Layers, l)
	}
	made, err := w.Compiled()
	childtest.Must(t, err)
	return roundTrip(t, made)
}

// Every accepted policy, forged or not, has an intersection with every other one.
func TestWithinForged(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := policytest.GenLayers(t)
		honest := policytest.CompileOn(t, sys, layers...)
		both := [2]*policy.Compiled{forged(t, honest), forged(t, honest)}
		c, err := both[1].Within(both[0])
		childtest.Must(t, err)
		if !c.Includes(both[0]) {
			t.Fatal("the intersection doesn't include the outer policy")
		}
		path := policytest.GenPath(t, "path")
		if got, want := c.Caps(path), both[0].Caps(path)&both[1].Caps(path); got != want {
			t.Fatalf("%s: %s, not %s", path, got, want)
		}
	})
}

// An intersection with more layers than can be read is rejected.
func TestWithinTooMany(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", policy.Read)}})
	for i := range policy.MaxLayers {
		in, err := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(fmt.Sprintf("/%d", i), policy.Read)}}).Within(c)
		if err != nil {
			if len(c.Layers) != policy.MaxLayers || !strings.Contains(err.Error(), "at most 64 layers") {
				t.Errorf("%d layers: %v", len(c.Layers), err)
			}
			return
		}
		c = in
	}
	t.Error("nothing is rejected")
}

// Every question about an accepted policy has an answer.
func FuzzJSON(f *testing.F) {
	text, err := json.Marshal(whole(f))
	childtest.Must(f, err)
	f.Add(string(text))
	f.Add(strings.NewReplacer(`"Last":"*.pem"`, `"Last":"x*"`).Replace(string(text)))
	outer := whole(f)
	f.Fuzz(func(t *testing.T, text string) {
		var w policy.Wire // without the digest, which a forger can compute
		if json.Unmarshal([]byte(text), &w) != nil || w.Check() != nil {
			return
		}
		c, err := w.Compiled()
		if err != nil {
			return
		}
		for _, q := range []explain.Question{
			{Resource: policy.FS, Caps: policy.Update, Target: "/w/src/.git/hooks/x.pem"},
			{Resource: policy.FS, Caps: policy.Execute, Target: "/usr/bin/git"},
			{Resource: policy.Net, Target: "https://a.example.com/x"},
			{Resource: policy.Net, Target: "tcp://10.1.2.3:80"},
			{Resource: policy.Env, Target: "AWS_KEY"},
			{Resource: policy.Commands, Target: "/usr/bin/git", Argv: []string{"git", "status"}},
		} {
			v, a := explain.Ask(c, policytest.Machine(), q)
			_ = fmt.Sprint(v, a, explain.Explain(c, policytest.Machine(), q))
		}
		for _, r := range c.Rules {
			_ = explain.RuleText(r)
		}
		_, _ = c.Within(outer)
		_, _ = outer.Within(c)
	})
}

func BenchmarkJSON(b *testing.B) {
	c := policytest.CompileSource(b, big(200), fspathtest.New(map[string]string{"/w": "dir"}))
	text, err := json.Marshal(c)
	childtest.Must(b, err)
	b.Logf("%d rules, %d bytes", len(c.Rules), len(text))
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			_, _ = json.Marshal(c)
		}
	})
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			_ = json.Unmarshal(text, &policy.Compiled{})
		}
	})
}

// An intersection has the aliases of both policies.
func TestWithinAliases(t *testing.T) {
	sys := fspathtest.Mounted{
		Tree:  fspathtest.New(map[string]string{"/w/x": "file", "/data/f": "file"}),
		Table: fspathtest.Mount("/data /w/b"), Inodes: map[string]uint64{"/w/x": 7, "/data/f": 7},
	}
	compiled := func(rules ...policy.FSRule) *policy.Compiled {
		return policytest.CompileOn(t, sys, policy.SourceLayer{FS: append([]policy.FSRule{policytest.Path("/", policy.AllCaps)}, rules...)})
	}
	inner, outer := compiled(policytest.Path("/data/f", policy.Read)), compiled(policytest.Path("/w/b", policy.Read|policy.Update))
	both, err := inner.Within(outer)
	childtest.Must(t, err)
	for path, want := range map[string]policy.Caps{"/w/b/f": policy.Read, "/w/b/g": policy.Read | policy.Update, "/data/g": policy.Read | policy.Update, "/w/x": policy.AllCaps} {
		if got := both.Caps(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	if v, _ := both.CheckFSInput(sys, "x", policy.Update); v.Reason != policy.RuleDenies || both.Rules[v.Rule].FS.Path != "/data/f" {
		t.Errorf("%+v", v)
	}
}
