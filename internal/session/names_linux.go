package session

import (
	"fmt"
	"path"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// The programs follow the path that the kernel resolved. What a rule names may be reached by another one that was there before: where
// more is granted on that one, they give it, and the rule holds in part.

// otherwise says what the programs give beyond what a rule leaves, by another name of what it's about; "" for nothing.
func otherwise(c *policy.Compiled, r *policy.Rule, left policy.Caps) string {
	plain := *c
	plain.Aliases = nil // as the programs see it
	for i := range c.Aliases {
		a := &c.Aliases[i]
		at, ok := elsewhere(a, r.FS)
		if !ok {
			continue
		}
		if more := plain.Caps(at) &^ c.Caps(at); more&^left != 0 {
			return fmt.Sprintf("%s is %s, too (a mount), and what grants more there (%s) counts: give a rule for it as well, or unmount it",
				at, r.FS.Written, more)
		}
	}
	if more := most(c) &^ left; c.Pinned(r) && more != 0 {
		return fmt.Sprintf("%s has other names by hard links, and where more is granted (%s) that counts: "+
			"toolguard policy lint --scan tells where they are", r.FS.Path, more)
	}
	return ""
}

// elsewhere is another name of what a rule is about, or of something that it's about.
func elsewhere(a *policy.Alias, fs *policy.CompiledFS) (at string, ok bool) {
	back := policy.Alias{From: a.To, To: a.From, Holes: a.Holes}
	at, ok = back.Other(fs.Path)
	if !ok {
		at, ok = a.From, strings.HasPrefix(a.To+"/", strings.TrimSuffix(fs.Path, "/")+"/")
	}
	if fs.Last != "" {
		at = path.Join(append([]string{at, strings.ReplaceAll(fs.Last, "*", "x")}, fs.Names...)...)
	}
	return at, ok
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
