package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// This is a second evaluator, written from the language's description alone, as slow and plain as it can be. It shares
// only the rule types with the real one.

type naiveLayer struct {
	rules, protect, secrets []policy.FSRule
	stance                  policy.Stance
}

// naiveWords cuts an absolute path into its components.
func naiveWords(path string) []string {
	var out []string
	for _, w := range strings.Split(path, "/") {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}

func naiveAbs(path string) string {
	switch {
	case path == "." || path == "":
		return policytest.Workspace
	case strings.HasPrefix(path, "/"):
		return path
	}
	return policytest.Workspace + "/" + path
}

// naiveDepth is the greatest number of components at which a rule matches a path, -1 for not at all.
func naiveDepth(r policy.FSRule, path string) int {
	target := naiveWords(path)
	for n := len(target); n >= 0; n-- {
		if naiveMatches(r, target[:n]) {
			return n
		}
	}
	return -1
}

// naiveMatches says whether a rule names exactly this entry.
func naiveMatches(r policy.FSRule, entry []string) bool {
	if r.Match == "" {
		return strings.Join(naiveWords(naiveAbs(r.Path)), "/") == strings.Join(entry, "/")
	}
	at := strings.Index(r.Match, "**/")
	base := naiveWords(naiveAbs(strings.TrimSuffix(r.Match[:at], "/")))
	if strings.HasPrefix(r.Match, "/**/") {
		base = nil
	}
	tail := strings.Split(r.Match[at+3:], "/")
	if len(entry) < len(base)+len(tail) {
		return false
	}
	for i, b := range base {
		if entry[i] != b {
			return false
		}
	}
	end := entry[len(entry)-len(tail):]
	for i, want := range tail {
		switch {
		case i == 0 && strings.HasSuffix(want, "*"):
			if !strings.HasPrefix(end[0], want[:len(want)-1]) {
				return false
			}
		case i == 0 && strings.HasPrefix(want, "*"):
			if !strings.HasSuffix(end[0], want[1:]) {
				return false
			}
		case end[i] != want:
			return false
		}
	}
	return true
}

// naiveWinner is the deciding rule's place in the list, -1 for none.
func naiveWinner(rules []policy.FSRule, path string) int {
	best, bestDepth, bestLiteral := -1, -1, false
	for i, r := range rules {
		d, literal := naiveDepth(r, path), r.Match == ""
		if d < 0 || d < bestDepth || d == bestDepth && bestLiteral && !literal {
			continue
		}
		best, bestDepth, bestLiteral = i, d, literal
	}
	return best
}

// naiveGivesWay is the list without the rules of built-in files at and beneath what another rule takes everything away from.
func naiveGivesWay(rules []policy.FSRule) (out []policy.FSRule) {
	for _, r := range rules {
		taken := slices.ContainsFunc(rules, func(d policy.FSRule) bool {
			return d.Place.File != "preset:x" && d.Caps == 0 && r.Match == "" && naiveDepth(d, naiveAbs(r.Path)) >= 0
		})
		if r.Place.File != "preset:x" || !taken {
			out = append(out, r)
		}
	}
	return out
}

// naiveComplete is the list as it counts: a rule of a built-in file about a place outside the workspace gives also what its
// path would get without it, and isn't there when that is all that it gives.
func naiveComplete(rules []policy.FSRule, stance policy.Stance) (out []policy.FSRule) {
	for i, r := range rules {
		if w := naiveWithout(rules, i, stance); naiveAdds(r) {
			if r.Caps&^w.Caps == 0 && (w.Unprotect || !r.Unprotect) && (w.Secret || !r.Secret) {
				continue
			}
			r = naiveSum(r, w)
		}
		out = append(out, r)
	}
	return out
}

func naiveAdds(r policy.FSRule) bool {
	return r.Place.File == "preset:x" && strings.HasPrefix(r.Path, "/")
}

func naiveSum(r, q policy.FSRule) policy.FSRule {
	r.Caps, r.Unprotect, r.Secret = r.Caps|q.Caps, r.Unprotect || q.Unprotect, r.Secret || q.Secret
	return r
}

// naiveWithout is what the path of a rule would get without it, and without those that come later on the same path.
func naiveWithout(rules []policy.FSRule, at int, stance policy.Stance) policy.FSRule {
	var others []policy.FSRule
	for i, r := range rules {
		if i != at && (i < at || r.Match != "" || naiveAbs(r.Path) != naiveAbs(rules[at].Path)) {
			others = append(others, r)
		}
	}
	w := naiveWinner(others, naiveAbs(rules[at].Path))
	switch {
	case w >= 0 && naiveAdds(others[w]):
		return naiveSum(others[w], naiveWithout(others, w, stance))
	case w >= 0:
		return others[w]
	case stance == policy.Allow:
		return policy.FSRule{Caps: policy.AllCaps}
	}
	return policy.FSRule{}
}

func naiveAllows(layers []naiveLayer, path string, want policy.Caps) bool {
	for _, l := range layers {
		unprotect, reveal := false, false
		if len(l.rules) > 0 || l.stance != policy.Undeclared {
			w := naiveWinner(l.rules, path)
			switch {
			case w >= 0 && want&^l.rules[w].Caps != 0:
				return false
			case w < 0 && l.stance != policy.Allow:
				return false
			case w >= 0:
				unprotect, reveal = l.rules[w].Unprotect, l.rules[w].Secret
			}
		}
		if !unprotect && want&policy.Write != 0 && naiveWinner(l.protect, path) >= 0 {
			return false
		}
		if w := naiveWinner(l.secrets, path); !reveal && want&(policy.Read|policy.Execute) != 0 && w >= 0 && l.secrets[w].Caps == 0 {
			return false
		}
	}
	return true
}

// Few names, so that random rules and paths meet; some are prefixes and suffixes of others.
var someNames = rapid.SampledFrom([]string{"a", "ab", "abc", "b", "bc", "c", ".env", "x.pem", "y.pem", ".git", "hooks", "*"})

func genPath(t *rapid.T, label string) string {
	return "/" + strings.Join(rapid.SliceOfN(someNames, 1, 6).Draw(t, label), "/")
}

func genRule(t *rapid.T, label string) policy.FSRule {
	r := policy.FSRule{
		Caps:      policy.Caps(rapid.IntRange(0, int(policy.AllCaps)).Draw(t, label+" caps")),
		Unprotect: rapid.Bool().Draw(t, label+" unprotect"), Secret: rapid.Bool().Draw(t, label+" secret"),
	}
	where := rapid.SliceOfN(someNames, 0, 3).Draw(t, label+" path")
	path := strings.Join(where, "/")
	if rapid.Bool().Draw(t, label+" literal") {
		r.Path = "./" + path
		if rapid.Bool().Draw(t, label+" absolute") {
			r.Path = "/" + path
		} else if path == "" {
			r.Path = "."
		}
		r.Path = strings.TrimPrefix(r.Path, "./")
		return r
	}
	r.Match = genMatch(t, label, strings.ReplaceAll(path, "*", "a"))
	return r
}

func genMatch(t *rapid.T, label, base string) string {
	plain := rapid.SampledFrom([]string{"a", "ab", "abc", "b", "c", ".env", "x.pem", ".git", "hooks"})
	last := plain.Draw(t, label+" last")
	switch rapid.IntRange(0, 2).Draw(t, label+" form") {
	case 1:
		last = last[:rapid.IntRange(1, len(last)).Draw(t, label+" cut")] + "*"
	case 2:
		last = "*" + last[rapid.IntRange(0, len(last)-1).Draw(t, label+" cut"):]
	}
	s := "**/" + strings.Join(append([]string{last}, rapid.SliceOfN(plain, 0, 2).Draw(t, label+" names")...), "/")
	switch {
	case base != "" && rapid.Bool().Draw(t, label+" absolute base"):
		return "/" + base + "/" + s
	case base != "":
		return base + "/" + s
	case rapid.Bool().Draw(t, label+" whole machine"):
		return "/" + s
	}
	return s
}

func genLayers(t *rapid.T) (layers []policy.SourceLayer, naive []naiveLayer) {
	n := rapid.IntRange(1, 3).Draw(t, "layers")
	for i := range n {
		l := policy.SourceLayer{Authority: policy.Authority(int(policy.Host) + i), Protect: policy.ProtectOn, Secrets: policy.ProtectOn}
		for j := range rapid.IntRange(0, 8).Draw(t, "rules") {
			r := genRule(t, fmt.Sprintf("rule %d.%d", i, j))
			if r.Match == "" && rapid.Bool().Draw(t, "built in") {
				r.Place.File = "preset:x"
			}
			l.FS = append(l.FS, r)
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "protected") {
			l.Protected = append(l.Protected, policy.FSRule{Match: genMatch(t, fmt.Sprintf("protect %d.%d", i, j), "")})
		}
		for j := range rapid.IntRange(0, 3).Draw(t, "secrets") {
			except := rapid.IntRange(0, 1).Draw(t, "exception")
			l.SecretFiles = append(l.SecretFiles, policy.FSRule{Match: genMatch(t, fmt.Sprintf("secrets %d.%d", i, j), ""), Caps: policy.Read * policy.Caps(except)})
		}
		l.Defaults[policy.FS] = rapid.SampledFrom([]policy.Stance{policy.Undeclared, policy.Deny, policy.Allow}).Draw(t, "default")
		layers = append(layers, l)
		stance := l.Defaults[policy.FS]
		if stance == policy.Undeclared && len(l.FS) > 0 {
			stance = policy.Deny
		}
		naive = append(naive, naiveLayer{naiveComplete(naiveGivesWay(l.FS), stance), l.Protected, l.SecretFiles, stance})
	}
	return layers, naive
}

// The compiled form agrees with the naive evaluator on everything.
func TestCompiledAgreesWithNaive(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		layers, naive := genLayers(t)
		c, err := policy.Compile(policytest.Source(layers...), sys)
		childtest.Must(t, err)
		for i := range 20 {
			path := genPath(t, "path")
			if i%2 == 0 {
				path = policytest.Workspace + path
			}
			want := policy.Caps(rapid.IntRange(1, int(policy.AllCaps)).Draw(t, "want"))
			v := c.CheckFS(path, want)
			if v.Allow != naiveAllows(naive, path, want) {
				t.Fatalf("%s %s: compiled %+v, naive %v", want, path, v, !v.Allow)
			}
			checkWinners(t, c, naive, path)
			if got := want&^c.Caps(path) == 0; got != v.Allow {
				t.Fatalf("%s %s: CheckFS %v, Caps %s", want, path, v.Allow, c.Caps(path))
			}
		}
	})
}

// checkWinners compares not only the verdict but the rule.
func checkWinners(t *rapid.T, c *policy.Compiled, naive []naiveLayer, path string) {
	for i, l := range c.Layers[1:] {
		want := naiveWinner(naive[i].rules, path)
		got := -1
		if r := l.FS.Deciding(path); r != nil {
			for j, n := range l.FS.Rules() {
				if n == r {
					got = j
				}
			}
		}
		if got != want {
			t.Fatalf("%s: rule %d of layer %d decides, naive %d", path, got, i, want)
		}
	}
}

// A built-in rule about a place outside the workspace never takes away: without it nothing more is allowed.
func TestBuiltinRulesNeverTakeAway(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := genLayers(t)
		fewer := slices.Clone(layers)
		for i, l := range fewer {
			if len(l.FS) > 0 && l.Defaults[policy.FS] == policy.Undeclared {
				layers[i].Defaults[policy.FS], fewer[i].Defaults[policy.FS] = policy.Deny, policy.Deny // also without rules
			}
			fewer[i].FS = slices.DeleteFunc(slices.Clone(l.FS), func(r policy.FSRule) bool {
				return naiveAdds(r) && rapid.Bool().Draw(t, "without")
			})
		}
		all, err := policy.Compile(policytest.Source(layers...), sys)
		childtest.Must(t, err)
		without, err := policy.Compile(policytest.Source(fewer...), sys)
		childtest.Must(t, err)
		for range 20 {
			path := genPath(t, "path")
			if more := without.Caps(path) &^ all.Caps(path); more != 0 {
				t.Fatalf("%s: %s more without some of the built-in rules\n%s\nwithout\n%s", path, more, rulesOf(all), rulesOf(without))
			}
		}
	})
}

// Adding an authority never allows more.
func TestRestrictNeverWidens(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := genLayers(t)
		drop := rapid.IntRange(0, len(layers)-1).Draw(t, "without")
		all, err := policy.Compile(policytest.Source(layers...), sys)
		childtest.Must(t, err)
		fewer, err := policy.Compile(policytest.Source(append(layers[:drop:drop], layers[drop+1:]...)...), sys)
		childtest.Must(t, err)
		for range 20 {
			path := genPath(t, "path")
			if more := all.Caps(path) &^ fewer.Caps(path); more != 0 {
				t.Fatalf("%s: one authority more allows %s more", path, more)
			}
		}
	})
}

// Merging is appending: the rules of a later file decide only where they're at least as specific, and then always.
func TestMergeOrder(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		var first, second []policy.FSRule
		for i := range rapid.IntRange(1, 5).Draw(t, "first") {
			first = append(first, genRule(t, fmt.Sprintf("first %d", i)))
		}
		for i := range rapid.IntRange(1, 5).Draw(t, "second") {
			second = append(second, genRule(t, fmt.Sprintf("second %d", i)))
		}
		compiled := func(rules []policy.FSRule) *policy.Compiled {
			c, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: rules}), sys)
			childtest.Must(t, err)
			return c
		}
		a, b, ab := compiled(first), compiled(second), compiled(append(first[:len(first):len(first)], second...))
		for range 20 {
			path := genPath(t, "path")
			ra, da := a.Layers[1].FS.Lookup(path)
			rb, db := b.Layers[1].FS.Lookup(path)
			r, d := ab.Layers[1].FS.Lookup(path)
			literal := func(c *policy.Compiled, r int32) bool { return r >= 0 && c.Rules[r].FS.Last == "" }
			fromB := rb >= 0 && (ra < 0 || db > da || db == da && (literal(b, rb) || !literal(a, ra)))
			switch {
			case ra < 0 && rb < 0:
				if r >= 0 {
					t.Fatalf("%s: matched by neither, but by both together", path)
				}
			case fromB && (ab.Rules[r].FS.Written != b.Rules[rb].FS.Written || d != db):
				t.Fatalf("%s: %s, want the later %s", path, ab.Rules[r].Text(), b.Rules[rb].Text())
			case !fromB && (ab.Rules[r].FS.Written != a.Rules[ra].FS.Written || d != da):
				t.Fatalf("%s: %s, want the earlier %s", path, ab.Rules[r].Text(), a.Rules[ra].Text())
			}
		}
	})
}
