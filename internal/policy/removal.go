package policy

// Removal is a built-in rule that isn't in force: a rule of the policy's own files denies everything at its path or above, or its path
// contains a symlink.
type Removal struct {
	Rule *Rule
	By   *Rule  // nil: the path contains a symlink
	Link string // the target of the symlink
}

// removeOverridden removes a layer's built-in rules at and beneath the path of a rule without any capability: its author
// means the whole folder and need not know the built-in rules.
func (c *compiler) removeOverridden(rules []*Rule) []*Rule {
	var denials []*Rule
	for _, r := range rules {
		if r.DeniesAll() {
			r.Index = int32(len(denials)) // until it has its own
			denials = append(denials, r)
		}
	}
	t, err := newFSTable(denials)
	if err != nil || denials == nil { // too many patterns are an error of the layer's own table
		return rules
	}
	kept := make([]*Rule, 0, len(rules))
	for _, r := range rules {
		if by := t.Deciding(r.FS.Path); by != nil && r.Builtin() && r.FS.Last == "" {
			c.out.Removed = append(c.out.Removed, Removal{Rule: r, By: by})
		} else {
			kept = append(kept, r)
		}
	}
	return kept
}

// DeniesAll reports whether a rule isn't built in and has no capability.
func (r *Rule) DeniesAll() bool { return !r.Builtin() && r.FS.Caps == 0 }
