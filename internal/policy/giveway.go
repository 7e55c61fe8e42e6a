package policy

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

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
		if r.takesAway() {
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

// takesAway says whether somebody wrote a rule without any capability.
func (r *Rule) takesAway() bool { return !r.Builtin() && r.FS.Caps == 0 }

// takenAway lists for a rule that takes everything away which built-in rules gave way to it, and what stays open beneath it all the same.
func (l *linter) takenAway(r *Rule) {
	if !r.takesAway() {
		return
	}
	var removed, open []string
	for _, x := range l.c.Removed {
		if x.By == r {
			removed = append(removed, fmt.Sprintf("%s (%s)", x.Rule.ID, x.Rule.FS.Path))
		}
	}
	for _, x := range l.layer.FS.Rules() {
		if x.FS.Caps != 0 && l.layer.FS.opens(x, r) {
			open = append(open, fmt.Sprintf("%s (%s, %s)", x.ID, fsWhat(x.FS), x.Place))
		}
	}
	if removed != nil {
		l.warnRule(r, "removed", "", "built-in rules at and beneath it aren't in force: %s", listed(removed))
	}
	if open != nil {
		l.warnRule(r, "stays-open", "", "beneath it stays open what other rules grant: %s", listed(open))
	}
}

// opens says whether a rule grants something beneath what another one takes away.
func (t *FSTable) opens(r, denial *Rule) bool {
	switch {
	case r.FS.Last == "" && denial.FS.Last == "":
		return r.FS.Path != denial.FS.Path && fspath.Within(r.FS.Path, denial.FS.Path)
	case r.FS.Last != "" && denial.FS.Last == "":
		return fspath.Within(r.FS.Path, denial.FS.Path) || fspath.Within(denial.FS.Path, r.FS.Path)
	case r.FS.Last == "":
		_, hit := t.Depths(r.FS.Path)[denial]
		return hit && t.Deciding(r.FS.Path) == r
	}
	return false
}

// mostListed is how many things a warning names.
const mostListed = 12

func listed(words []string) string {
	if more := len(words) - mostListed; more > 0 {
		words = append(words[:mostListed:mostListed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}
