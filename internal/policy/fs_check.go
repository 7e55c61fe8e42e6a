package policy

import "github.com/toolguard/toolguard/internal/policy/fspath"

// CheckFS decides whether everything wanted is allowed on a canonical path, as the kernel resolved it. It doesn't allocate, and doesn't
// read the file system: CheckFile considers hard links.
func (c *Compiled) CheckFS(path string, want Caps) Verdict {
	if !fspath.IsCanonical(path) {
		return Verdict{Reason: PathUnresolved, Layer: -1, Rule: NoMatch}
	}
	v := Verdict{Allow: true, Reason: AllowedNoPolicy, Layer: -1, Rule: NoMatch}
	for i, l := range c.Layers {
		at, ok := l.CheckFS(path, want)
		at.Layer = int16(i)
		if !ok {
			return at
		}
		if at.Reason != AllowedNoPolicy && l.Authority != Builtin {
			v = at
		}
	}
	if other, ok := c.checkAliases(path, want); !ok {
		return other
	}
	return v
}

// CheckFS is one layer's verdict.
func (l *Layer) CheckFS(path string, want Caps) (v Verdict, ok bool) {
	v = Verdict{Allow: true, Reason: AllowedNoPolicy, Rule: NoMatch}
	var lifted [NumRestrictions]bool
	if l.Defaults[FS] != Undeclared {
		v.Rule, _ = l.FS.find(path)
		r := l.FS.Rule(v.Rule)
		switch {
		case r != nil && want&^r.FS.Caps != 0:
			return Verdict{Reason: l.DenialReason(), Rule: v.Rule}, false
		case r != nil:
			v.Reason, lifted = Allowed, r.FS.Exempts()
		case l.Defaults[FS] == Allow:
			v.Reason = AllowedByDefault
		default:
			return Verdict{Reason: NoRule, Rule: NoMatch}, false
		}
	}
	for k, t := range l.Restrictions() {
		if t == nil || want&RestrictedCaps[k] == 0 || lifted[k] {
			continue
		}
		if p, _ := t.find(path); want&Restriction(k).Removes(t.Rule(p)) != 0 {
			return Verdict{Reason: Protected, Rule: p}, false
		}
	}
	return v, true
}

// DenialReason returns the reason of a denial by a rule of this layer.
func (l *Layer) DenialReason() Reason {
	if l.Authority == Builtin {
		return Protected
	}
	return RuleDenies
}

// Caps returns the capabilities that all layers together allow on a canonical path.
func (c *Compiled) Caps(path string) Caps {
	caps := AllCaps
	for _, l := range c.Layers {
		caps &= l.caps(path)
	}
	return caps & c.aliasCaps(path)
}

// caps returns the capabilities that the layer alone allows on a path.
func (l *Layer) caps(path string) Caps {
	if !fspath.IsCanonical(path) {
		return 0
	}
	caps, lifted := AllCaps, [NumRestrictions]bool{}
	if l.Defaults[FS] != Undeclared {
		r := l.FS.Deciding(path)
		switch {
		case r != nil:
			caps, lifted = r.FS.Caps, r.FS.Exempts()
		case l.Defaults[FS] != Allow:
			caps = 0
		}
	}
	for k, t := range l.Restrictions() {
		if !lifted[k] {
			caps &^= Restriction(k).Removes(t.Deciding(path))
		}
	}
	return caps
}
