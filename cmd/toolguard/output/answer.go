package output

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session/backend"
)

// Answer is the answer of check.
func (s *Screen) Answer(q explain.Question, a explain.Answer, h backend.Here) {
	defer s.flush()
	s.decision(q, a, h)
}

func (s *Screen) decision(q explain.Question, a explain.Answer, h backend.Here) {
	verdict := cs(green, "allow")
	if a.Decision != "allow" {
		verdict = cs(red, "deny")
	}
	rows := [][]cell{{verdict, c(asked(q, a.Target))}, {c("why"), c(explain.Why(a.Reason, a.Rule) + " (" + string(a.Reason) + ")")}}
	if a.Note != "" {
		rows = append(rows, []cell{c(""), c(a.Note)})
	}
	if a.Rule != nil {
		rows = append(rows, []cell{c("rule"), c(ruleLine(a.Rule))})
	}
	if a.Also != "" {
		rows = append(rows, []cell{c("it's also"), c(a.Also)})
	}
	if a.Authority != policy.Session && (a.Rule != nil || a.Authority != policy.Builtin) {
		rows = append(rows, []cell{c("by"), c("the " + a.Authority.String() + " authority")})
	}
	rows = append(rows, hereRows(h)...)
	if a.Advice != "" {
		rows = append(rows, []cell{c("to allow"), c(a.Advice)})
	}
	s.table("", rows)
	if a.Suggest != "" {
		s.line("to allow it, copy this to the end of the policy:")
		s.toml(a.Suggest)
	}
}

// Granted lists what is granted, after a denial.
func (s *Screen) Granted(grants []string) {
	defer s.flush()
	for i, g := range grants {
		if i == 0 {
			s.line("granted:")
		}
		s.line("  %s", g)
	}
}

// hereRows shows whether a decision is enforced on this machine.
func hereRows(h backend.Here) [][]cell {
	text, st := "enforced by "+h.By, plain
	switch {
	case h.StartError != "":
		text, st = "nothing starts under this policy: "+h.StartError, red
	case h.Status == policy.NotEnforceable:
		text, st = "not enforced by "+h.Backend+": "+h.Why, red
	case h.Status == policy.Partly:
		text, st = "only partly enforced by "+h.Backend+": "+h.Why, yellow
	case h.Stricter:
		text, st = text+", which is stricter: "+h.Why, yellow
	}
	rows := [][]cell{{c("here"), cs(st, text)}}
	if st != plain && h.Instead != "" {
		rows = append(rows, []cell{c(""), c("to have it enforced, " + h.Instead)})
	}
	return rows
}

// toml writes what can be copied into a policy.
func (s *Screen) toml(text string) {
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		s.line("  %s", s.in(faint, Clean(line)))
	}
}

// ruleLine is a rule on one line: id, text, place.
func ruleLine(r *policy.Rule) string {
	return fmt.Sprintf("%s  %s  (%s)", r.ID, explain.RuleText(r), r.Position)
}

// asked is the question in the words of the command line.
func asked(q explain.Question, target string) string {
	target = cmp.Or(target, q.Target)
	switch q.Resource {
	case policy.FS:
		if q.Symlink {
			return "readlink " + target
		}
		return q.Caps.String() + " " + target
	case policy.Net:
		if q.Listen {
			return "listen on " + target
		}
		if q.Method != "" {
			return q.Method + " " + target
		}
		return "connect to " + target
	case policy.Env:
		return "read $" + target
	}
	return "run " + strings.Join(q.Argv, " ")
}

// Explanation is the answer of explain.
func (s *Screen) Explanation(q explain.Question, e explain.Explanation, h backend.Here) {
	defer s.flush()
	s.decision(q, e.Answer, h)
	if len(e.Layers) == 0 {
		s.line("\nno authority declares %s, so everything is allowed", q.Resource)
	}
	for _, l := range e.Layers {
		if l.Authority == policy.Builtin && l.Allow && len(l.Candidates) == 0 {
			continue // it isn't one of toolguard's own files: so no protection is expected
		}
		s.verdict(l)
	}
}

// verdict prints the decision of one authority, and the reason.
func (s *Screen) verdict(l explain.LayerExplanation) {
	verdict := s.in(green, "allows")
	if !l.Allow {
		verdict = s.in(red, "denies")
	}
	also := ""
	if l.Also != "" {
		also = ", as it's also " + l.Also
	}
	s.line("\n%s %s%s: %s", s.in(bold, l.Authority.String()), verdict, also, explain.Why(l.Reason, l.Winner()))
	var rows [][]cell
	for _, k := range l.Candidates {
		mark, st := "  ", plain
		if k.Won {
			mark, st = "* ", bold
		}
		rows = append(rows, []cell{cs(st, mark+k.Rule.ID), cs(st, explain.RuleText(k.Rule)), cs(faint, position(k.Rule.Position))})
		rows = append(rows, []cell{c(""), c(k.Grade + ": " + k.Why)})
	}
	s.table("  ", rows)
	if rows == nil {
		s.line("  no rule matches; the default is %s", defaultAction(l.DefaultAction))
	}
}
