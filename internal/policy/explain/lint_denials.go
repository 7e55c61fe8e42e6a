package explain

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// takenAway lists, for a rule without capabilities, the built-in rules that it removes and the rules that still grant something beneath it.
func (l *linter) takenAway(r *policy.Rule) {
	if !r.DeniesAll() {
		return
	}
	var removed, open []string
	for _, x := range l.c.Removed {
		if x.By == r {
			removed = append(removed, fmt.Sprintf("%s (%s)", x.Rule.ID, x.Rule.FS.Path))
		}
	}
	for _, x := range l.layer.FS.Rules() {
		if x.FS.Caps != 0 && opensBeneath(l.layer.FS, x, r) {
			open = append(open, fmt.Sprintf("%s (%s, %s)", x.ID, fsWhat(x.FS), x.Position))
		}
	}
	if removed != nil {
		l.warnRule(r, "removed", "", "built-in rules at and beneath it aren't in force: %s", listed(removed))
	}
	if open != nil {
		l.warnRule(r, "stays-open", "", "beneath it stays open what other rules grant: %s", listed(open))
	}
}

// opens reports whether a rule grants something beneath the path of a rule that denies.
func opensBeneath(t *policy.FSTable, r, denial *policy.Rule) bool {
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

// mostListed is the most items that a warning lists.
const mostListed = 12

func listed(words []string) string {
	if more := len(words) - mostListed; more > 0 {
		words = append(words[:mostListed:mostListed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}
