package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session/backend"
)

// Begin prints one line before the command starts: what isn't enforced, why, and what to do; nothing where everything is.
func (s *Screen) Begin(r backend.Report) {
	var what, instead string
	notes := slices.DeleteFunc(slices.Clone(r.Notes), func(row policy.Enforceability) bool { return row.Opens != "" }) // a stated gap of every start
	switch n := degraded(notes); {
	case n != "":
		what, instead = fmt.Sprintf("%s doesn't enforce %s: %s", r.Backend, n, notes[0].Why), "to have it enforced, "
	case r.Skipped && !r.Denials:
		what, instead = r.Backend+" enforces this policy by itself, and reports little of what it denies", "for more, "
	default:
		return
	}
	if r.Instead != "" {
		what += "; " + instead + r.Instead
	}
	if r.Masked {
		what += "; --backend bwrap protects what exists now"
	}
	s.Message("%s (--quiet: without this line)", what)
}

// degraded are the ids of rules, those of one kind together: "protect (55 rules), secrets (104 rules)".
func degraded(notes []policy.Enforceability) string {
	var kinds []string
	rules := map[string]int{}
	for _, row := range notes {
		kind := backend.Kind(row.ID)
		if rules[kind]++; rules[kind] == 1 {
			kinds = append(kinds, kind)
		}
	}
	for i, kind := range kinds {
		if n := rules[kind]; n > 1 {
			kinds[i] = fmt.Sprintf("%s (%d rules)", kind, n)
		}
	}
	const most = 5
	if n := len(kinds) - most; n > 0 {
		kinds = append(kinds[:most], fmt.Sprintf("%d more (--dry-run lists them)", n))
	}
	return strings.Join(kinds, ", ")
}

// shortfall is how far a row isn't enforced, and by what.
func shortfall(row policy.Enforceability, backend string) string {
	by := cmp.Or(row.By, backend)
	if row.Status == policy.Partly {
		return "only partly enforceable by " + by
	}
	return "not enforceable by " + by
}

// named is a row's rule by id and text.
func named(row policy.Enforceability) string {
	return strings.TrimSpace(row.ID + " " + ruleText(row))
}

// Enforceability prints the enforceability report.
func (s *Screen) Enforceability(r backend.Report, p *policy.Compiled) {
	defer s.flush()
	s.line("policy %s, workspace %s, backend %s", s.in(bold, Clean(p.Name)), Clean(p.Workspace), s.in(bold, r.Backend))
	if len(p.Detected) > 0 {
		s.line("detected: %s (--no-detect: without them)", Clean(detectedText(p)))
	}
	for _, x := range p.Removed {
		if x.Link != "" {
			s.line("not granted: %s, as a symlink leads to %s (%s)", Clean(x.Rule.FS.Written), Clean(x.Link), Clean(x.Rule.ID))
		}
	}
	blocking := map[string]bool{}
	for _, row := range r.Blocking {
		blocking[row.ID] = true
	}
	rows, builtin := enforceabilityRows(r, blocking)
	s.line("")
	s.table("  ", rows)
	if builtin > 0 {
		s.line("  and %s of the built-in sets, enforced ('toolguard policy show' lists them)", Count(builtin, "rule"))
	}
	if len(r.Gaps) > 0 {
		s.line("\nwhat %s never sees, under any policy:", r.Backend)
		s.list("  ", r.Gaps)
	}
	if len(r.Passed) > 0 {
		s.line("\nwhy not another backend:")
		s.list("  ", r.Passed)
	}
	s.line("")
	switch n := len(r.Blocking); {
	case n > 0:
		s.line("%s: %s can't be enforced here", s.in(red, "the command would not start"), Count(n, "rule"))
	case len(r.Notes) > 0:
		s.line("%s, with %s not fully enforced, as allowed", s.in(green, "the command would start"), Count(len(r.Notes), "rule"))
	default:
		s.line("%s", s.in(green, "the command would start"))
	}
}

// detectedText lists the presets that the built-in default policy includes, each with the file or command that it was detected by.
func detectedText(p *policy.Compiled) string {
	var list []string
	for _, d := range p.Detected {
		list = append(list, fmt.Sprintf("%s (%s)", d.Preset, d.By))
	}
	return strings.Join(list, ", ")
}

// enforceabilityRows are the rows of the report except for fully enforced built-in rules, which are counted. Built-in rules
// with the same text share a row.
func enforceabilityRows(r backend.Report, blocking map[string]bool) (rows [][]cell, builtin int) {
	for i := 0; i < len(r.Rows); i++ {
		row := r.Rows[i]
		isBuiltin := row.Rule != nil && row.Rule.Builtin()
		if isBuiltin && row.Status == policy.Enforced && row.Why == "" {
			builtin++
			continue
		}
		id, text, n := row.ID, ruleText(row), 1
		for i+1 < len(r.Rows) && row.Alike(r.Rows[i+1]) && !blocking[row.ID] {
			i++
			n++
		}
		if n > 1 {
			id, text = id+" to "+r.Rows[i].ID, Count(n, "rule")
		}
		rows = append(rows, []cell{cs(bold, id), statusCell(row, blocking[row.ID]), c(row.By), cs(faint, position(row.Position)), c(text)})
		if row.Why != "" {
			rows = append(rows, []cell{c(""), cs(faint, row.Why)})
		}
	}
	return rows, builtin
}

func ruleText(row policy.Enforceability) string {
	if row.Rule == nil {
		return ""
	}
	return explain.RuleText(row.Rule)
}

func statusCell(row policy.Enforceability, blocking bool) cell {
	switch {
	case row.Stricter:
		return cs(green, row.Status.String()+", stricter")
	case row.Status == policy.Enforced:
		return cs(green, row.Status.String())
	case blocking:
		return cs(red, row.Status.String())
	}
	return cs(yellow, row.Status.String()+" (allowed)")
}
