package landlock

import (
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// A Landlock grant is on a file or folder, under every name that leads there, and grants above a mount point apply beneath it. So a rule for
// one alias may grant what a rule for another denies.

// underAliases reports on a rule whose path has aliases by bind mounts. bad is true if a rule grants more under one of them.
func (t *tree) underAliases(r *policy.Rule) (w result, bad bool) {
	for i := range t.aliases {
		a := &t.aliases[i]
		back := fspath.Alias{From: a.To, To: a.From, Holes: a.Holes}
		at, ok := back.Other(r.FS.Path)
		if !ok {
			at = a.From // beneath the rule's path, if at all
		}
		if w, bad := t.aliasResult(a, at, t.ruleAt(at), r); bad {
			return w, true
		}
		for _, g := range t.order {
			if beneath(g.FS.Path, at) {
				if w, bad := t.aliasResult(a, g.FS.Path, g, r); bad {
					return w, true
				}
			}
		}
	}
	return result{}, false
}

// aliasResult reports on a rule that may deny what another one grants under an alias.
func (t *tree) aliasResult(a *fspath.Alias, at string, grant, r *policy.Rule) (w result, bad bool) {
	more := capsOf(grant) &^ r.FS.Caps
	if more == 0 || t.layer.RuleByAlias(a, at) != r {
		return result{}, false
	}
	other, _ := a.Other(at)
	return notEnforceable(fmt.Sprintf("landlock can't take away beneath a grant: %s gives %s on %s, which is also %s (a bind mount)",
		grant.ID, more, at, other)), true
}

// underHardLinks reports on a rule for a file with several hard links; w is the result for its own name.
func (t *tree) underHardLinks(r *policy.Rule, w result) result {
	i := slices.IndexFunc(t.order, func(g *policy.Rule) bool { return g.FS.Caps&^r.FS.Caps != 0 })
	if i < 0 {
		return w
	}
	g := t.order[i]
	return partlyEnforced(fmt.Sprintf("%s has several hard links, and landlock grants under all of them what %s grants on one (%s on %s): "+
		"toolguard policy lint --scan lists them", r.FS.Path, g.ID, g.FS.Caps, g.FS.Path))
}

// ownHardLinks does the same for a file of toolguard's own, which is protected if some authority grants no more.
func (k *reporter) ownHardLinks(r *policy.Rule) (w result, bad bool) {
	if !k.c.Pinned(r) {
		return result{}, false
	}
	for _, t := range k.trees {
		if w = t.underHardLinks(r, enforced("")); w.status == policy.Enforced {
			return result{}, false
		}
	}
	return w, true
}
