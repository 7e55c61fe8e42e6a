package policy

import (
	"path"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Lookup returns NoMatch or Unresolvable where no rule decides.
const (
	NoMatch            = fspath.NoMatch
	Unresolvable int32 = -2
)

// FSTable is the rules about files of one layer, of one kind, with the table that finds the one that decides. A nil table has no rules.
type FSTable struct {
	rules    []*Rule
	literals []*Rule
	patterns []*Rule
	first    int32 // Index of rules[0]; the rules of a table are consecutive
	paths    *fspath.Table
}

// newFSTable indexes rules, which must be compiled and consecutive in Compiled.Rules.
func newFSTable(rules []*Rule) (*FSTable, error) {
	return newFSTableOf(rules, func(*Rule) bool { return true })
}

// newFSTableOf indexes the rules for which include returns true.
func newFSTableOf(rules []*Rule, include func(*Rule) bool) (*FSTable, error) {
	entries := make([]*fspath.Entry, len(rules))
	for i, r := range rules {
		if include(r) {
			entries[i] = &r.FS.Entry
		}
	}
	paths, err := fspath.NewTable(entries)
	if err != nil {
		return nil, err
	}
	t := &FSTable{rules: rules, paths: paths}
	if len(rules) > 0 {
		t.first = rules[0].Index
	}
	t.literals, t.patterns = t.at(paths.Literals()), t.at(paths.Patterns())
	return t, nil
}

// at returns the rules of entries.
func (t *FSTable) at(entries []int32) []*Rule {
	rules := make([]*Rule, len(entries))
	for i, e := range entries {
		rules[i] = t.rules[e]
	}
	return rules
}

// index returns the Index of an entry's rule.
func (t *FSTable) index(entry int32) int32 {
	if entry < 0 {
		return NoMatch
	}
	return t.first + entry
}

// Lookup returns the Index of the rule that decides a canonical path, and the number of components at which it matched.
// The rule is NoMatch when none does, and Unresolvable when path is too long, too deep or not canonical: to be denied.
func (t *FSTable) Lookup(path string) (rule int32, depth int) {
	if !fspath.IsCanonical(path) {
		return Unresolvable, 0
	}
	return t.find(path)
}

// find is Lookup for a path that is known to be resolvable.
func (t *FSTable) find(path string) (rule int32, depth int) { return t.findBeneath(path, "") }

// findBeneath is find for the path that rest makes beneath dir: it's "", or begins with a slash.
func (t *FSTable) findBeneath(dir, rest string) (rule int32, depth int) {
	if t == nil {
		return NoMatch, 0
	}
	entry, depth := t.paths.FindBeneath(dir, rest)
	return t.index(entry), depth
}

// Rules returns every rule in order; the caller must not change it.
func (t *FSTable) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}

// Literals returns every rule with a path, in order.
func (t *FSTable) Literals() []*Rule {
	if t == nil {
		return nil
	}
	return t.literals
}

// Patterns returns every rule with a match, in order.
func (t *FSTable) Patterns() []*Rule {
	if t == nil {
		return nil
	}
	return t.patterns
}

// Rule returns the rule with that Index, nil for NoMatch and Unresolvable.
func (t *FSTable) Rule(index int32) *Rule {
	if t == nil || index < 0 {
		return nil
	}
	return t.rules[index-t.first]
}

// Deciding returns the rule that decides a canonical path; nil when none matches or the path can't be followed.
func (t *FSTable) Deciding(path string) *Rule {
	if t == nil {
		return nil
	}
	rule, _ := t.Lookup(path)
	return t.Rule(rule)
}

// ParentRule returns the rule that decides the parent of a path; nil when none does.
func (t *FSTable) ParentRule(p string) *Rule {
	if p == "/" {
		return nil
	}
	return t.Deciding(path.Dir(p))
}

// LiteralBeneath returns the first literal rule strictly beneath path, nil when there is none.
func (t *FSTable) LiteralBeneath(path string) *Rule {
	if t == nil {
		return nil
	}
	return t.Rule(t.index(t.paths.LiteralBeneath(path)))
}

// baseBeneath returns a pattern whose BASE lies strictly beneath path, nil when there is none. A move of path would move its BASE.
func (t *FSTable) baseBeneath(path string) *Rule {
	if t == nil {
		return nil
	}
	return t.Rule(t.index(t.paths.BaseBeneath(path)))
}

// partOf returns a pattern that path is a part of, as ".git" is of "**/.git/hooks"; nil when there is none.
func (t *FSTable) partOf(path string) *Rule {
	if t == nil {
		return nil
	}
	return t.Rule(t.index(t.paths.PartOf(path)))
}

// Depths returns the depth at which each matching rule matches a canonical path.
func (t *FSTable) Depths(path string) map[*Rule]int {
	out := map[*Rule]int{}
	for _, m := range t.paths.Trace(path) {
		out[t.rules[m.Entry]] = m.Depth
	}
	return out
}
