package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/backend"
)

// NotEnforceable shows why a policy can't be enforced here: first what would go wrong, without the terms of backends, then what to do,
// then every rule.
func (s *Screen) NotEnforceable(r backend.Report, name string) {
	defer s.flush()
	first, n := r.Blocking[0], len(r.Blocking)
	more := ""
	if n > 1 {
		more = fmt.Sprintf("; nor can %s be enforced", Count(n-1, "more rule"))
	}
	where, advice := " ("+position(first.Position)+")", []string{r.Instead, otherPolicy(first)}
	switch {
	case first.By == backend.ByExec:
		advice = advice[1:]
	case r.Instead == "":
		advice[0] = "use another backend ('toolguard doctor' shows what this machine has)"
	}
	if ownRule(first) {
		where = ""
		slices.Reverse(advice)
	}
	s.line("%s%s: %s%s%s", s.prefix(), s.in(red, "nothing was started"), Clean(impossible(first)), Clean(where), more)
	var ids []string
	for _, row := range r.Blocking {
		if id := backend.Kind(row.ID); !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	s.line("  what to do: %s; or accept that it isn't enforced: --allow-degraded=%s", Clean(strings.Join(advice, "; or ")), Clean(strings.Join(ids, ",")))
	s.line("  %s can't enforce %s of policy %s:", r.Backend, Count(n, "rule"), Clean(name))
	for _, row := range r.Blocking[:min(n, mostErrors)] {
		s.line("  %s: %s: %s: %s", s.in(bold, Clean(position(row.Position))), Clean(named(row)), shortfall(row, r.Backend), Clean(row.Why))
	}
	if n > mostErrors {
		s.line("  … and %d more (all of them with --dry-run)", n-mostErrors)
	}
	for _, why := range r.Passed {
		s.line("  nor can another backend: %s", Clean(why))
	}
}

// impossible describes what can't be enforced here.
func impossible(row policy.Enforceability) string {
	limit, isLimit := strings.CutPrefix(row.ID, "limits.")
	switch r := row.Rule; {
	case isLimit:
		return limit + " can't be limited here"
	case row.By == backend.ByExec:
		return "exec doesn't enforce " + row.ID
	case ownRule(row):
		return "the command could change " + r.FS.Path + ", which toolguard goes by"
	case r != nil && r.FS != nil && r.FS.Last != "" && r.FS.Caps == 0:
		return "the command can't be kept from files that match " + r.FS.Written + " here"
	case r != nil && r.FS != nil && r.FS.Caps == 0:
		return "the command can't be kept from " + r.FS.Written + " here"
	case r != nil && r.FS != nil:
		return "what the command may do with " + r.FS.Written + " can't be limited here as in the policy"
	case r != nil && r.Net != nil && r.Net.Listen:
		return "where the command may accept connections can't be limited here as in the policy"
	case r != nil && r.Net != nil && r.Net.Allow:
		return "the command can't be limited to the host " + r.Net.Host + " here"
	case r != nil && r.Net != nil:
		return "the command can't be kept from the host " + r.Net.Host + " here"
	}
	return row.ID + " can't be enforced here"
}

// otherPolicy describes a policy that could be enforced.
func otherPolicy(row policy.Enforceability) string {
	switch r := row.Rule; {
	case ownRule(row):
		return "move it out of the folders that the command may write"
	case r != nil && r.FS != nil && r.FS.Caps == 0:
		return "grant only folders that the command may have whole"
	case r != nil && r.Net != nil && r.Net.Allow && !r.Net.Listen:
		return `allow every host, by two rules for its port: host = "0.0.0.0/0" and host = "::/0"`
	case r == nil:
		return "leave it out of the policy"
	}
	return "change the rule"
}

// ownRule reports whether a row's rule protects toolguard's own files, such as the policy.
func ownRule(row policy.Enforceability) bool {
	return row.Rule != nil && row.Rule.FS != nil && row.Position.File == "builtin:toolguard"
}
