package output

import (
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// Changes is the answer of policy diff.
func (s *Screen) Changes(changes []explain.Change) {
	defer s.flush()
	if len(changes) == 0 {
		s.line("the two policies have the same meaning")
		return
	}
	var rows [][]cell
	more := map[[3]string]int{} // the row of the first of those that differ in their target alone
	others := map[int]int{}
	for _, ch := range changes {
		what, rules := ch.Old+" → "+ch.New, rulePlaces(ch)
		key := [3]string{ch.Resource, what, rules}
		if row, ok := more[key]; ok && rules != "" {
			others[row]++
			continue
		}
		more[key] = len(rows)
		rows = append(rows, []cell{direction(ch), c(ch.Resource), c(ch.Target), c(what), cs(faint, rules)})
	}
	for row, n := range others {
		rows[row][2].text += fmt.Sprintf(" and %d more", n)
	}
	s.table("", rows)
}

// direction returns whether a change is wider or narrower.
func direction(ch explain.Change) cell {
	switch {
	case ch.Widened && !ch.Narrowed:
		return cs(red, "wider")
	case ch.Narrowed && !ch.Widened:
		return cs(green, "narrower")
	}
	return cs(yellow, "different")
}

// rulePlaces are the rules that decide before and after, where there's one.
func rulePlaces(ch explain.Change) string {
	if ch.OldRule == nil && ch.NewRule == nil {
		return ""
	}
	place := func(r *policy.Rule) string {
		if r == nil {
			return "no rule"
		}
		return r.ID + " " + r.Position.String()
	}
	return place(ch.OldRule) + " → " + place(ch.NewRule)
}
