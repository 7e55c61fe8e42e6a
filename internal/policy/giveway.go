package policy

// Removal is a built-in rule that isn't in force: a rule of the policy's own files takes everything away at its path or above, or a symlink
// stands in its path.
type Removal struct {
	Rule *Rule
	By   *Rule  // nil: there's a symlink
	Link string // where that leads
}

// giveWay leaves out the built-in rules of a layer on and beneath what a rule of a policy file without any capability is about: who takes
// a folder away means all of it, and doesn't know what is built in.
func (c *compiler) giveWay(rules []*Rule) []*Rule {
	var denials []*Rule
	for _, r := range rules {
		if r.TakesAway() {
			r.Index = int32(len(denials)) // for now
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

// TakesAway says whether somebody wrote a rule without any capability.
func (r *Rule) TakesAway() bool { return !r.Builtin() && r.FS.Caps == 0 }
