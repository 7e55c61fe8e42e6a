package policy

import "slices"

// Restriction is a set of rules by which a layer denies capabilities that its fs rules grant.
type Restriction int

const (
	RestrictProtect Restriction = iota // no writing of files that trusted programs obey
	RestrictSecrets                    // no reading of credentials
	NumRestrictions
)

// RestrictedCaps are the capabilities that the rules of each kind deny. An interpreter that executes a file reads it.
var RestrictedCaps = [NumRestrictions]Caps{RestrictProtect: Write, RestrictSecrets: Read | Execute}

// Restrictions returns the layer's rules of each kind; nil where it's off.
func (l *Layer) Restrictions() [NumRestrictions]*FSTable {
	return [NumRestrictions]*FSTable{RestrictProtect: l.Protect, RestrictSecrets: l.Secrets}
}

// tables returns all of the layer's rules for files.
func (l *Layer) tables() [1 + NumRestrictions]*FSTable {
	return [1 + NumRestrictions]*FSTable{l.FS, l.Protect, l.Secrets}
}

// Exempts returns the kinds that don't apply to what a rule grants.
func (f *CompiledFS) Exempts() [NumRestrictions]bool {
	return [NumRestrictions]bool{RestrictProtect: f.Unprotect, RestrictSecrets: f.Secret}
}

// Removes returns the capabilities that a rule of the kind denies: a rule of secrets that grants read is an exception, and denies none.
func (k Restriction) Removes(r *Rule) Caps {
	if r == nil || k == RestrictSecrets && r.FS.Caps&Read != 0 {
		return 0
	}
	return RestrictedCaps[k]
}

// Secret reports whether a canonical path is that of credentials, whatever the rules grant.
func (l *Layer) Secret(path string) bool {
	return RestrictSecrets.Removes(l.Secrets.Deciding(path)) != 0
}

// SharedRule returns the rule of a layer that restricts the same as another layer's rule: a mechanism may store equal restrictions once
// for all layers. It returns any other rule unchanged.
func (c *Compiled) SharedRule(layer int, rule int32) int32 {
	if layer < 0 || layer >= len(c.Layers) || rule < 0 || int(rule) >= len(c.Rules) {
		return rule
	}
	l, r := c.Layers[layer], c.Rules[rule]
	for _, t := range l.tables() {
		if slices.Contains(t.Rules(), r) {
			return rule
		}
	}
	for _, t := range l.Restrictions() {
		for _, q := range t.Rules() {
			if r.FS != nil && q.FS.same(r.FS) {
				return q.Index
			}
		}
	}
	return rule
}

// same reports whether two rules match the same paths with the same capabilities.
func (f *CompiledFS) same(g *CompiledFS) bool {
	return f.Path == g.Path && f.Last == g.Last && slices.Equal(f.Names, g.Names) && f.Caps == g.Caps
}
