package policy

import (
	"path"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// NoMatch and Unresolvable are what Lookup returns instead of a rule.
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

// newFSTableOf indexes those of the rules that count.
func newFSTableOf(rules []*Rule, counts func(*Rule) bool) (*FSTable, error) {
	entries := make([]*fspath.Entry, len(rules))
	for i, r := range rules {
		if counts(r) {
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

// at are the rules of entries.
func (t *FSTable) at(entries []int32) []*Rule {
	rules := make([]*Rule, len(entries))
	for i, e := range entries {
		rules[i] = t.rules[e]
	}
	return rules
}

// index is the Index of an entry's rule.
func (t *FSTable) index(entry int32) int32 {
	if entry < 0 {
		return NoMatch
	}
	return t.first + entry
}

// Lookup is the Index of the rule that decides a canonical path, and the number of components at which it matched.
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

// Rules is every rule in order; the caller must not change it.
func (t *FSTable) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}

// Literals is every rule with a path, in order.
func (t *FSTable) Literals() []*Rule {
	if t == nil {
		return nil
	}
	return t.literals
}

// Patterns is every rule with a match, in order.
func (t *FSTable) Patterns() []*Rule {
	if t == nil {
		return nil
	}
	return t.patterns
}

// Rule is the rule with that Index, nil for NoMatch and Unresolvable.
func (t *FSTable) Rule(index int32) *Rule {
	if t == nil || index < 0 {
		return nil
	}
	return t.rules[index-t.first]
}

// Deciding is the rule that decides a canonical path; nil when none matches or the path can't be followed.
func (t *FSTable) Deciding(path string) *Rule {
	if t == nil {
		return nil
	}
	rule, _ := t.Lookup(path)
	return t.Rule(rule)
}

// Covering is the rule that covers path from above: the one that decides its parent. nil when none does.
func (t *FSTable) Covering(p string) *Rule {
	if p == "/" {
		return nil
	}
	return t.Deciding(path.Dir(p))
}

// LiteralBeneath is the first literal rule strictly beneath path, nil when there is none.
func (t *FSTable) LiteralBeneath(path string) *Rule {
	if t == nil {
		return nil
	}
	return t.Rule(t.index(t.paths.LiteralBeneath(path)))
}

// baseBeneath is a pattern whose BASE lies strictly beneath path, nil when there is none. Its BASE would move away from it.
func (t *FSTable) baseBeneath(path string) *Rule {
	if t == nil {
		return nil
	}
	return t.Rule(t.index(t.paths.BaseBeneath(path)))
}

// partOf is a pattern that path is a part of, as ".git" is of "**/.git/hooks"; nil when there is none.
func (t *FSTable) partOf(path string) *Rule {
	if t == nil {
		return nil
	}
	return t.Rule(t.index(t.paths.PartOf(path)))
}

// Depths is how deep each rule matches that matches a canonical path at all.
func (t *FSTable) Depths(path string) map[*Rule]int {
	out := map[*Rule]int{}
	for _, m := range t.paths.Trace(path) {
		out[t.rules[m.Entry]] = m.Depth
	}
	return out
}
