package policy

import "path"

// Rules is every rule in order; the caller must not change it. A nil table has none.
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

// at is the trie's node for a path, -1 when there is none.
func (t *FSTable) at(path string) int32 {
	if t == nil || len(t.rules) == 0 {
		return -1
	}
	node := int32(0)
	for _, c := range components(path) {
		id := t.names.find(c, hashName(c))
		if id < 0 {
			return -1
		}
		if node = t.edges.find(node, id); node < 0 {
			return -1
		}
	}
	return node
}

// LiteralBeneath is the first literal rule strictly beneath path, nil when there is none.
func (t *FSTable) LiteralBeneath(path string) *Rule {
	node := t.at(path)
	if node < 0 {
		return nil
	}
	return t.Rule(t.nodes[node].below)
}

// PatternBeneath is the first pattern that could hit path itself or something beneath it, nil when there is none.
func (t *FSTable) PatternBeneath(path string) *Rule {
	for _, r := range t.Patterns() {
		if within(path, r.FS.Path) || within(r.FS.Path, path) {
			return r
		}
	}
	return nil
}
