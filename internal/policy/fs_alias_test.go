package policy_test

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// name is an alias of a path: the depth at which its file system is mounted, and the beginnings of the path and of the alias,
// which have the same end.
type name struct {
	path     string
	depth    int
	from, to string
}

// naiveNames returns the aliases of p.
func naiveNames(all []fspath.Mount, p string) (out []name) {
	m := fspathtest.MountOf(all, p)
	inside := fspath.Join(m.Root, fspath.Beneath(p, m.At))
	for i := range all {
		o := &all[i]
		if o.Dev != m.Dev || !fspath.Within(inside, o.Root) {
			continue
		}
		q := fspath.Join(o.At, fspath.Beneath(inside, o.Root))
		rest := fspath.Beneath(inside, o.Root)
		if len(m.Root) > len(o.Root) {
			rest = fspath.Beneath(inside, m.Root)
		}
		if q != p && fspathtest.MountOf(all, q) == o {
			out = append(out, name{q, len(policytest.NaiveWords(o.At)), strings.TrimSuffix(p, rest), strings.TrimSuffix(q, rest)})
		}
	}
	return out
}

// counts reports whether a rule that matches n components of the alias applies to the path.
func (o name) counts(r policy.FSRule, n int) bool {
	if r.Match == "" {
		return n >= o.depth && (policytest.NaiveDepth(r, o.from) < 0 || n > len(policytest.NaiveWords(o.to)))
	}
	at := strings.Index(r.Match, "**/")
	tail := len(strings.Split(r.Match[at+3:], "/"))
	both := r.Match[0] == '/' && fspath.Within(o.from, "/"+strings.Trim(r.Match[:at], "/")) || r.Match[0] != '/' && fspath.Within(o.from, strings.TrimSuffix(policytest.NaiveAbs(r.Match[:at]), "/"))
	return n >= o.depth && !(both && n-tail >= len(policytest.NaiveWords(o.to)))
}

// naiveRestricts reports whether the rules about an alias deny something.
func naiveRestricts(l policytest.NaiveLayer, o name, want policy.Caps) bool {
	rules := slices.DeleteFunc(slices.Clone(l.Rules), policytest.NaiveAdds)
	unprotect, reveal := false, false
	if w := policytest.NaiveWinner(rules, o.path); w >= 0 {
		if o.counts(rules[w], policytest.NaiveDepth(rules[w], o.path)) && want&^rules[w].Caps != 0 {
			return true
		}
		unprotect, reveal = rules[w].Unprotect, rules[w].Secret
	}
	w := policytest.NaiveWinner(l.Protect, o.path)
	if !unprotect && want&policy.Write != 0 && w >= 0 && o.counts(l.Protect[w], policytest.NaiveDepth(l.Protect[w], o.path)) {
		return true
	}
	w = policytest.NaiveWinner(l.Secrets, o.path)
	return !reveal && want&(policy.Read|policy.Execute) != 0 && w >= 0 && l.Secrets[w].Caps == 0 && o.counts(l.Secrets[w], policytest.NaiveDepth(l.Secrets[w], o.path))
}

func naiveAliasAllows(layers []policytest.NaiveLayer, all []fspath.Mount, path string, want policy.Caps) bool {
	for _, o := range naiveNames(all, path) {
		for _, l := range layers {
			if naiveRestricts(l, o, want) {
				return false
			}
		}
	}
	return policytest.NaiveAllows(layers, path, want)
}

func genMounts(t *rapid.T) (lines []string) {
	for i := range rapid.IntRange(1, 4).Draw(t, "mounts") {
		path := func(what string) string {
			p := "/" + strings.Join(rapid.SliceOfN(policytest.SomeNames, 0, 2).Draw(t, what), "/")
			if rapid.IntRange(0, 3).Draw(t, what+" in the workspace") == 0 {
				p = fspath.Join(policytest.Workspace, fspath.Beneath(p, "/"))
			}
			return p
		}
		line := path(fmt.Sprint("root ", i)) + " " + path(fmt.Sprint("at ", i))
		if rapid.IntRange(0, 3).Draw(t, "another file system") == 0 {
			line = "2 " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// genAliased returns paths, most of which have aliases.
func genAliased(t *rapid.T, all []fspath.Mount) []string {
	paths := []string{policytest.GenPath(t, "path"), policytest.Workspace + policytest.GenPath(t, "path")}
	for _, a := range fspath.VisibleMounts(all).Aliases() {
		p := policytest.GenPath(t, "path")
		paths = append(paths, a.From, fspath.Join(a.From, p), fspath.Join(a.To, p))
	}
	return paths
}

// checks sets the number of rapid's cases for this test, unless the command line sets one.
func checks(t *testing.T, n string) {
	f := flag.Lookup("rapid.checks")
	if f.Value.String() != f.DefValue {
		return
	}
	childtest.Must(t, flag.Set("rapid.checks", n))
	t.Cleanup(func() { _ = flag.Set("rapid.checks", f.DefValue) })
}

// The compiled form agrees with the naive evaluator about aliases by mounts.
func TestAliasesAgreeWithNaive(t *testing.T) {
	sys := fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w": "dir"})}
	restricted, compared := 0, 0
	checks(t, "5000") // two seconds
	rapid.Check(t, func(t *rapid.T) {
		layers, naive := policytest.GenLayers(t)
		for i := range layers {
			if !rapid.Bool().Draw(t, "much is allowed") {
				continue
			}
			layers[i].FS = append([]policy.FSRule{policytest.Path("/", policy.AllCaps)}, layers[i].FS...)
			naive[i].Rules = policytest.NaiveComplete(policytest.NaiveRemoveOverridden(layers[i].FS), naive[i].DefaultAction)
		}
		sys.Table = fspathtest.Mount(genMounts(t)...)
		c := policytest.CompileOn(t, sys, layers...)
		for _, path := range genAliased(t, sys.Table) {
			want := policy.Caps(rapid.IntRange(1, int(policy.AllCaps)).Draw(t, "want"))
			got, should := c.CheckFS(path, want), naiveAliasAllows(naive, sys.Table, path, want)
			if got.Allow != should {
				t.Fatalf("%s %s: compiled %+v, naive %v\n%+v\n%s", want, path, got, should, sys.Table, rulesOf(c))
			}
			if (want&^c.Caps(path) == 0) != got.Allow {
				t.Fatalf("%s %s: CheckFS %v, Caps %s", want, path, got.Allow, c.Caps(path))
			}
			compared++
			if !got.Allow && policytest.NaiveAllows(naive, path, want) {
				restricted++
			}
		}
	})
	t.Logf("%d denials because of another name in %d comparisons", restricted, compared)
	if restricted < 200 {
		t.Errorf("%d denials because of another name in %d comparisons: the test shows little", restricted, compared)
	}
}

// Aliases never allow more.
func TestAliasesNeverWiden(t *testing.T) {
	sys := fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w": "dir"})}
	narrower := 0
	checks(t, "1000")
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := policytest.GenLayers(t)
		for i := range layers {
			if rapid.Bool().Draw(t, "much is allowed") {
				layers[i].FS = append([]policy.FSRule{policytest.Path("/", policy.AllCaps)}, layers[i].FS...)
			}
		}
		without := policytest.CompileOn(t, sys.Tree, layers...)
		sys.Table = fspathtest.Mount(genMounts(t)...)
		c := policytest.CompileOn(t, sys, layers...)
		for _, path := range genAliased(t, sys.Table) {
			caps, before := c.Caps(path), without.Caps(path)
			if caps&^before != 0 {
				t.Fatalf("%s: with aliases %s more\n%+v\n%s", path, caps&^before, sys.Table, rulesOf(c))
			}
			if caps != before {
				narrower++
			}
		}
	})
	if narrower == 0 {
		t.Error("no mount made a difference: nothing was tested")
	}
}
