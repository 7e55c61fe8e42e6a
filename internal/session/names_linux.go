package session

import (
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
)

// otherwise says what the programs give beyond what a rule leaves, by hard links of the file that it names, which they don't know;
// "" for nothing.
func otherwise(c *policy.Compiled, r *policy.Rule, left policy.Caps) string {
	if more := most(c) &^ left; c.Pinned(r) && more != 0 {
		return fmt.Sprintf("%s has other names by hard links, and where more is granted (%s) that counts: "+
			"toolguard policy lint --scan tells where they are", r.FS.Path, more)
	}
	return ""
}

// most is what any path may have at most.
func most(c *policy.Compiled) policy.Caps {
	all := policy.AllCaps
	for _, l := range c.Layers {
		if l.Stance[policy.FS] != policy.Deny {
			continue
		}
		var some policy.Caps
		for _, r := range l.FS.Rules() {
			some |= r.FS.Caps
		}
		all &= some
	}
	return all
}
