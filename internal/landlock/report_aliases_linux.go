package landlock

import (
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// A Landlock grant is on what is at a path and holds whatever the name that leads there; what holds above the mount that
// leads there comes to it. So what a rule takes away at one name, a rule for another one may give.

// otherwise judges a rule whose path has other names by bind mounts: bad says that more is given under one of those.
func (t *tree) otherwise(r *policy.Rule) (w status, bad bool) {
	for i := range t.aliases {
		a := &t.aliases[i]
		back := fspath.Alias{From: a.To, To: a.From, Holes: a.Holes}
		at, ok := back.Other(r.FS.Path)
		if !ok {
			at = a.From // what is beneath the rule's path, if anything
		}
		if w, bad := t.gives(a, at, t.deciding(at), r); bad {
			return w, true
		}
		for _, g := range t.order {
			if beneath(g.FS.Path, at) {
				if w, bad := t.gives(a, g.FS.Path, g, r); bad {
					return w, true
				}
			}
		}
	}
	return status{}, false
}

// gives judges a rule that may narrow what another one grants at one of an alias's names.
func (t *tree) gives(a *fspath.Alias, at string, grant, r *policy.Rule) (w status, bad bool) {
	more := capsOf(grant) &^ r.FS.Caps
	if more == 0 || t.layer.RuleByAlias(a, at) != r {
		return status{}, false
	}
	other, _ := a.Other(at)
	return notEnforceable(fmt.Sprintf("landlock can't take away beneath a grant: %s gives %s on %s, and that is %s, too (a bind mount)",
		grant.ID, more, at, other)), true
}

// linked judges a rule about a file that has other names by hard links; w is what is to be said about its own name.
func (t *tree) linked(r *policy.Rule, w status) status {
	i := slices.IndexFunc(t.order, func(g *policy.Rule) bool { return g.FS.Caps&^r.FS.Caps != 0 })
	if i < 0 {
		return w
	}
	g := t.order[i]
	return partly(fmt.Sprintf("%s has other names by hard links, and where %s grants more (%s on %s, say) landlock gives that: "+
		"toolguard policy lint --scan tells where they are", r.FS.Path, g.ID, g.FS.Caps, g.FS.Path))
}

// ownLinked judges the protection of a file of toolguard's own in the same way: it holds if some authority grants no more.
func (k *report) ownLinked(r *policy.Rule) (w status, bad bool) {
	if !k.c.Pinned(r) {
		return status{}, false
	}
	for _, t := range k.trees {
		if w = t.linked(r, enforced("")); w.status == policy.Enforced {
			return status{}, false
		}
	}
	return w, true
}
