package manifest

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// example is a tool at which a decision can change. shown is how reports name it: the pattern that it's an example of; "" for any tool that
// no manifest names.
type example struct{ tool, shown string }

// toolLetters are those of names in the normal form.
const toolLetters = "abcdefghijklmnopqrstuvwxyz0123456789_@/.:"

// universe returns an example of each set of tools that the manifests distinguish: the names that they have, one tool for each pattern and
// each pair of patterns with a common name, and, first, one that is in no manifest.
func (v *verifier) universe() []example {
	var patterns words
	patterns.add("*")
	for _, s := range []*side{v.old, v.new} {
		for _, t := range s.m.Tools {
			patterns.add(t.Name)
		}
		eachEntry(s.m.Layer, func(e toolset.Entry) {
			if !strings.HasPrefix(e.Text, toolset.GroupPrefix) {
				patterns.add(e.Text)
			}
		})
		patterns.add(slices.Sorted(maps.Keys(s.m.Layer.Aliases))...)
	}
	var taken names
	for _, p := range patterns.list {
		taken.add(toolset.Normal(p))
	}
	taken.add("mcp__*")
	for i, a := range taken.globs {
		for _, b := range taken.globs[:i] {
			if common, ok := toolset.Common(a, b, "*"); ok {
				patterns.add(common)
			}
		}
	}
	var all []example
	seen := map[string]bool{}
	for i, p := range patterns.list {
		x := example{p, p}
		switch {
		case i == 0:
			x = example{taken.example("*", "toolguard_example", toolLetters), ""}
		case strings.Contains(p, "*"):
			x.tool = taken.example(toolset.Normal(p), "example", toolLetters)
		}
		if n := toolset.Normal(x.tool); toolset.ValidName(n) && !seen[n] {
			seen[n] = true
			all = append(all, x)
		}
	}
	return all
}

// eachEntry calls f for the patterns of tools of a layer.
func eachEntry(l *toolset.Layer, f func(toolset.Entry)) {
	each := func(lists ...[]toolset.Entry) {
		for _, e := range slices.Concat(lists...) {
			f(e)
		}
	}
	for _, t := range l.Tools {
		each([]toolset.Entry{t.Pattern}, t.Implies, t.OnlyAfter, t.Aliases)
	}
	for _, g := range slices.Sorted(maps.Keys(l.Groups)) {
		each(l.Groups[g])
	}
	eachStage(l, func(s *toolset.Stage) { each(s.Allow, s.AlsoAllow, s.Deny) })
	each(l.Gate.Exclude, l.Gate.ToolPatterns)
	for _, h := range slices.Concat(l.Before, l.After) {
		each(h.Tools)
	}
}

// offers returns lists of tools that a host could offer. In each, no two names are one tool for a manifest: of those a caller sees one. The
// first has as many tools as possible; others have the aliases, and lack the tools that a stage with on_unknown = "strip" allows.
func (v *verifier) offers() (lists [][]example) {
	var taken []map[string]bool
	for _, x := range v.examples {
		a, b := "old "+v.old.m.Layer.Canonical(x.tool), "new "+v.new.m.Layer.Canonical(x.tool)
		i := slices.IndexFunc(taken, func(t map[string]bool) bool { return !t[a] && !t[b] })
		if i < 0 {
			i = len(taken)
			taken, lists = append(taken, map[string]bool{}), append(lists, nil)
		}
		taken[i][a], taken[i][b] = true, true
		lists[i] = append(lists[i], x)
	}
	l := v.new.m.Layer
	rest := lists[0]
	eachStage(l, func(s *toolset.Stage) {
		if !s.Strip || !s.Filters {
			return
		}
		m := l.Matcher(slices.Concat(s.Allow, s.AlsoAllow))
		without := func(list []example) (out []example) {
			for _, x := range list {
				if m.Find(l.Target(x.tool, ""), false) == nil {
					out = append(out, x)
				}
			}
			return out
		}
		rest = without(rest)
		lists = append(lists, without(lists[0]))
	})
	if len(rest) < len(lists[0]) {
		lists = append(lists, rest)
	}
	return lists
}

// given returns tools as a host offers them.
func given(list []example) (tools []visibility.Tool) {
	for _, x := range list {
		tools = append(tools, visibility.Tool{Name: x.tool})
	}
	return tools
}
