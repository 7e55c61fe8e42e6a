package darwin

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// addVariables adds what can match beneath a region's point. follow includes patterns of other folders from which something can be moved here.
func (p *profile) addVariables(r *region, follow bool) {
	for i, l := range p.layers() {
		p.fsVariables(r, i, l, follow)
		if s := p.inScope(l.Protect, r); len(s) > 0 {
			restrict(r, i, policy.RestrictProtect, newLinks(false, p.suffixes(s, r)))
			p.partVariable(r, i, s, func(s *layerState, _ int) { s.part[policy.RestrictProtect] = true })
		}
		if s := p.inScope(l.Secrets, r); len(s) > 0 {
			denied := slices.DeleteFunc(slices.Clone(s), isException)
			exceptions := slices.DeleteFunc(s, func(r *policy.Rule) bool { return !isException(r) })
			restrict(r, i, policy.RestrictSecrets, alternating(p.suffixes(denied, r), p.suffixes(exceptions, r))...)
			p.partVariable(r, i, denied, func(s *layerState, _ int) { s.part[policy.RestrictSecrets] = true })
		}
	}
}

// isException reports whether a rule of secrets excepts files.
func isException(r *policy.Rule) bool { return policy.RestrictSecrets.Removes(r) == 0 }

// alternations is how often a denial may follow an exception of secrets along one path; beyond it's denied.
const alternations = 2

// alternating returns the matches by which the deepest of two kinds decides: the first, third, … deny.
func alternating(denied, exceptions []suffix) (matches []links) {
	if matches = append(matches, newLinks(false, denied)); len(exceptions) == 0 {
		return matches
	}
	var sets [][]suffix
	for i := range 2*alternations - 2 {
		if i%2 == 0 {
			sets = append(sets, exceptions)
		} else {
			sets = append(sets, denied)
		}
		matches = append(matches, newLinks(false, slices.Clone(sets)...))
	}
	return matches
}

// restrict adds a restriction: matches of an odd number deny.
func restrict(r *region, layer int, k policy.Restriction, matches ...links) {
	r.add(layer, matches, func(s *layerState, match int) { s.restricted[k] = match%2 == 1 })
}

// partVariable adds the folders that are a part of patterns.
func (p *profile) partVariable(r *region, layer int, rules []*policy.Rule, change func(*layerState, int)) {
	var parts []suffix
	for _, rule := range rules {
		parts = append(parts, partsOf(p.scope(rule), r.path)...)
	}
	if len(parts) > 0 {
		r.add(layer, []links{newLinks(true, parts)}, change)
	}
}

// fsVariables adds the fs patterns of a layer: one variable for those of the same capabilities.
func (p *profile) fsVariables(r *region, layer int, l *policy.Layer, follow bool) {
	here := patternsAt(l.FS, r)
	for _, same := range classes(here) {
		rule := same[0]
		r.add(layer, []links{newLinks(false, p.suffixes(same, r))}, func(s *layerState, _ int) { s.patterns = append(s.patterns, rule) })
	}
	if p.partVariable(r, layer, here, func(s *layerState, _ int) { s.partOfFS = true }); !follow {
		return
	}
	var elsewhere []*policy.Rule
	for _, q := range l.FS.Patterns() {
		if p.following[q] && !fspath.Within(r.path, q.FS.Path) {
			elsewhere = append(elsewhere, q)
		}
	}
	if len(elsewhere) == 0 || r.most&policy.Create == 0 {
		return
	}
	for _, same := range classes(elsewhere) {
		caps := same[0].FS.Caps
		r.add(layer, []links{newLinks(false, p.suffixes(same, r))}, func(s *layerState, _ int) { s.mask &= caps })
	}
	p.partVariable(r, layer, elsewhere, func(s *layerState, _ int) { s.partOfFS = true })
}

// findFollowing finds the patterns that take away what new files can have elsewhere, if folders can be moved out of their BASE or into it.
func (p *profile) findFollowing() {
	for _, l := range p.layers() {
		for _, q := range l.FS.Patterns() {
			p.following[q] = p.gain&^q.FS.Caps != 0 && slices.ContainsFunc(p.regions, func(r *region) bool {
				return fspath.Within(r.path, q.FS.Path) && r.most&(policy.Create|policy.Delete) != 0
			})
		}
		for k, t := range l.Restrictions() {
			for _, q := range t.Patterns() {
				p.following[q] = p.gain&policy.Restriction(k).Removes(q) != 0 && p.movable(q, true) && p.movable(q, false)
			}
		}
	}
}

// movable reports whether folders can be moved out of, or into, some region within a pattern's BASE, or outside it.
func (p *profile) movable(q *policy.Rule, within bool) bool {
	return slices.ContainsFunc(p.regions, func(r *region) bool {
		return fspath.Within(r.path, q.FS.Path) == within && r.most&(policy.Create|policy.Delete) != 0
	})
}

// scope is a pattern, everywhere if it also applies outside its BASE.
func (p *profile) scope(q *policy.Rule) *fspath.Entry {
	e := q.FS.Entry
	if p.following[q] {
		e.Path = "/"
	}
	return &e
}

// classes groups rules by their capabilities and exemptions, in the order of the rules.
func classes(rules []*policy.Rule) (groups [][]*policy.Rule) {
	for _, r := range rules {
		i := slices.IndexFunc(groups, func(g []*policy.Rule) bool { return sameEffect(g[0], r) })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], r)
	}
	return groups
}

func sameEffect(a, b *policy.Rule) bool {
	return a.FS.Caps == b.FS.Caps && a.FS.Exempts() == b.FS.Exempts()
}

// inScope returns the patterns of a table that apply beneath a region's point.
func (p *profile) inScope(t *policy.FSTable, r *region) (rules []*policy.Rule) {
	for _, q := range t.Patterns() {
		if fspath.Within(r.path, p.scope(q).Path) {
			rules = append(rules, q)
		}
	}
	return rules
}

// patternsAt returns the patterns of a table with their BASE at a region's point or above.
func patternsAt(t *policy.FSTable, r *region) (rules []*policy.Rule) {
	for _, q := range t.Patterns() {
		if fspath.Within(r.path, q.FS.Path) {
			rules = append(rules, q)
		}
	}
	return rules
}

func (p *profile) suffixes(rules []*policy.Rule, r *region) (list []suffix) {
	for _, rule := range rules {
		e := &rule.FS.Entry
		if !fspath.Within(r.path, e.Path) {
			e = p.scope(rule)
		}
		list = append(list, suffixesOf(e, r.path)...)
	}
	return list
}

// add adds a variable, or its effect to one with the same matches.
func (r *region) add(layer int, matches []links, change func(*layerState, int)) {
	key := ""
	for _, m := range matches {
		key += m.key
	}
	e := effect{layer, change}
	for i := range r.variables {
		if v := &r.variables[i]; v.key == key {
			v.effects = append(v.effects, e)
			return
		}
	}
	r.variables = append(r.variables, variable{key, matches, []effect{e}})
}
