package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// The compiled form agrees with the naive evaluator on everything.
func TestCompiledAgreesWithNaive(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		layers, naive := policytest.GenLayers(t)
		c := policytest.CompileOn(t, sys, layers...)
		for i := range 20 {
			path := policytest.GenPath(t, "path")
			if i%2 == 0 {
				path = policytest.Workspace + path
			}
			want := policy.Caps(rapid.IntRange(1, int(policy.AllCaps)).Draw(t, "want"))
			v := c.CheckFS(path, want)
			if v.Allow != policytest.NaiveAllows(naive, path, want) {
				t.Fatalf("%s %s: compiled %+v, naive %v", want, path, v, !v.Allow)
			}
			checkWinners(t, c, naive, path)
			if got := want&^c.Caps(path) == 0; got != v.Allow {
				t.Fatalf("%s %s: CheckFS %v, Caps %s", want, path, v.Allow, c.Caps(path))
			}
		}
	})
}

// checkWinners compares the deciding rules, too.
func checkWinners(t *rapid.T, c *policy.Compiled, naive []policytest.NaiveLayer, path string) {
	for i, l := range c.Layers[1:] {
		want := policytest.NaiveWinner(naive[i].Rules, path)
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

// A built-in rule for a path outside the workspace removes nothing: without it no more is allowed.
func TestBuiltinRulesRemoveNothing(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	rapid.Check(t, func(t *rapid.T) {
		layers, _ := policytest.GenLayers(t)
		fewer := slices.Clone(layers)
		for i, l := range fewer {
			if len(l.FS) > 0 && l.Defaults[policy.FS] == policy.Undeclared {
				layers[i].Defaults[policy.FS], fewer[i].Defaults[policy.FS] = policy.Deny, policy.Deny // also without rules
			}
			fewer[i].FS = slices.DeleteFunc(slices.Clone(l.FS), func(r policy.FSRule) bool {
				return policytest.NaiveAdds(r) && rapid.Bool().Draw(t, "without")
			})
		}
		all := policytest.CompileOn(t, sys, layers...)
		without := policytest.CompileOn(t, sys, fewer...)
		for range 20 {
			path := policytest.GenPath(t, "path")
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
		layers, _ := policytest.GenLayers(t)
		drop := rapid.IntRange(0, len(layers)-1).Draw(t, "without")
		all := policytest.CompileOn(t, sys, layers...)
		fewer := policytest.CompileOn(t, sys, append(layers[:drop:drop], layers[drop+1:]...)...)
		for range 20 {
			path := policytest.GenPath(t, "path")
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
			first = append(first, policytest.GenRule(t, fmt.Sprintf("first %d", i)))
		}
		for i := range rapid.IntRange(1, 5).Draw(t, "second") {
			second = append(second, policytest.GenRule(t, fmt.Sprintf("second %d", i)))
		}
		compiled := func(rules []policy.FSRule) *policy.Compiled {
			return policytest.CompileOn(t, sys, policy.SourceLayer{FS: rules})
		}
		a, b, ab := compiled(first), compiled(second), compiled(append(first[:len(first):len(first)], second...))
		for range 20 {
			path := policytest.GenPath(t, "path")
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
				t.Fatalf("%s: %s, want the later %s", path, explain.RuleText(ab.Rules[r]), explain.RuleText(b.Rules[rb]))
			case !fromB && (ab.Rules[r].FS.Written != a.Rules[ra].FS.Written || d != da):
				t.Fatalf("%s: %s, want the earlier %s", path, explain.RuleText(ab.Rules[r]), explain.RuleText(a.Rules[ra]))
			}
		}
	})
}
