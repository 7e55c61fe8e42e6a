package policy

// restrict decides by every layer that declares a resource and stops at the first that denies: a target is allowed only if
// all of them allow it. find is the layer's deciding rule, nil for none, and whether that rule allows, or whether it's allowed without one.
// An allowed target's rule is the last layer's.
func (c *Compiled) restrict(res Resource, find func(*Layer) (*Rule, bool), unmatched Reason) Verdict {
	v := Verdict{Allow: true, Reason: AllowedNoPolicy, Layer: -1, Rule: NoMatch}
	for i, l := range c.Layers {
		if l.Defaults[res] == Undeclared {
			continue
		}
		r, ok := find(l)
		v.Layer = int16(i)
		v.Rule, v.Reason = NoMatch, AllowedByDefault
		switch {
		case r != nil && ok:
			v.Rule, v.Reason = r.Index, Allowed
		case r != nil:
			return Verdict{Reason: RuleDenies, Layer: v.Layer, Rule: r.Index}
		case !ok && l.Defaults[res] != Allow:
			return Verdict{Reason: unmatched, Layer: v.Layer, Rule: NoMatch}
		}
	}
	return v
}
