package policy

import "slices"

// Guard is one of the sets of rules by which a layer takes away beneath what its fs rules give.
type Guard int

const (
	GuardProtect Guard = iota // what trusted programs obey isn't written
	GuardSecrets              // credentials aren't read
	NumGuards
)

// GuardTakes is what the rules of each kind take away. Who may execute a file could have it read by what runs it.
var GuardTakes = [NumGuards]Caps{GuardProtect: Write, GuardSecrets: Read | Execute}

// Guards is the layer's rules of each kind; nil where it's off.
func (l *Layer) Guards() [NumGuards]*FSTable {
	return [NumGuards]*FSTable{GuardProtect: l.Protect, GuardSecrets: l.Secrets}
}

// tables is all of the layer's rules about files.
func (l *Layer) tables() [1 + NumGuards]*FSTable {
	return [1 + NumGuards]*FSTable{l.FS, l.Protect, l.Secrets}
}

// Lifts says which kinds take nothing away from what a rule gives.
func (f *CompiledFS) Lifts() [NumGuards]bool {
	return [NumGuards]bool{GuardProtect: f.Unprotect, GuardSecrets: f.Secret}
}

// Taken is what a rule of the kind takes away: one of secrets that gives read is an exception.
func (k Guard) Taken(r *Rule) Caps {
	if r == nil || k == GuardSecrets && r.FS.Caps&Read != 0 {
		return 0
	}
	return GuardTakes[k]
}

// Secret says whether credentials are kept at a canonical path, whatever the rules grant.
func (l *Layer) Secret(path string) bool { return GuardSecrets.Taken(l.Secrets.Deciding(path)) != 0 }

// SameIn is the rule of a layer that takes away what another layer's does: a mechanism may have those that are the same once for all layers. Any
// other rule is itself.
func (c *Compiled) SameIn(layer int, rule int32) int32 {
	if layer < 0 || layer >= len(c.Layers) || rule < 0 || int(rule) >= len(c.Rules) {
		return rule
	}
	l, r := c.Layers[layer], c.Rules[rule]
	for _, t := range l.tables() {
		if slices.Contains(t.Rules(), r) {
			return rule
		}
	}
	for _, t := range l.Guards() {
		for _, q := range t.Rules() {
			if r.FS != nil && q.FS.same(r.FS) {
				return q.Index
			}
		}
	}
	return rule
}

// same says whether two rules match alike and give the same.
func (f *CompiledFS) same(g *CompiledFS) bool {
	return f.Path == g.Path && f.Last == g.Last && slices.Equal(f.Names, g.Names) && f.Caps == g.Caps
}
