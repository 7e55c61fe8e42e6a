package output

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// ReportLines is the most lines of the report after a command.
const ReportLines = 20

// ReportOptions are the options of a report.
type ReportOptions struct {
	Rest     string // where the rest is
	Numbered bool   // with the numbers for why and allow
	Lines    int    // the most lines
}

// Report shows what was denied while the command ran, and where the rest is when that's too much.
func (s *Screen) Report(r session.Result, name string, how ReportOptions) {
	defer s.flush()
	if !r.Visible && len(r.Denials) == 0 {
		s.line("%swhat the kernel denies can't be seen%s: 'toolguard doctor' shows what that needs (policy %s)", s.prefix(), Clean(whyUnseen(r)), Clean(name))
	} else {
		s.line("%s%s (policy %s)", s.prefix(), s.in(red, Count(r.Total, "denial")), Clean(name))
	}
	var end []string
	if len(r.RemovedEnv) > 0 {
		end = append(end, "not in its environment: "+someOf(r.RemovedEnv, 20))
	}
	if r.WhyLost != "" {
		unseen := "some denials may have gone by unseen"
		if r.Lost > 0 {
			unseen = fmt.Sprintf("at least %s went by unseen", Count(r.Lost, "denial"))
		}
		end = append(end, unseen+": "+r.WhyLost)
	}
	if r.More > 0 {
		end = append(end, fmt.Sprintf("and %s of what the policy allows: --dry-run and 'toolguard doctor' show where the backend is stricter",
			Count(r.More, "denial")))
	}
	if !r.Visible && len(r.Denials) > 0 {
		end = append(end, fmt.Sprintf("what else the kernel denies can't be seen%s: 'toolguard doctor' shows what that needs", whyUnseen(r)))
	}
	lines := how.Lines - 1 - len(end)
	ordered := AnywayLast(r.Denials)
	grants := grantsOf(ordered)
	rows, shown := denialRows(ordered, how.Numbered, max(lines/2, lines-linesOf(grants)))
	s.table("  ", rows)
	left := lines - len(rows)
	if n := len(ordered) - shown; n > 0 {
		s.line("  … and %d more%s", n, how.Rest)
		left--
	}
	for _, e := range end {
		s.line("  %s", Clean(e))
	}
	s.grants(grantsOf(ordered[:shown]), left, allowHint(name, how.Numbered)) // the last, to be copied
}

// whyUnseen returns why denials can't be seen.
func whyUnseen(r session.Result) string {
	if r.WhyUnseen == "" {
		return " by this user"
	}
	return " here (" + strings.TrimPrefix(r.WhyUnseen, "the kernel's audit records can't be read: ") + ")"
}

// AnywayLast puts what ordinary permissions would have denied, too, behind the rest.
func AnywayLast(list []denials.Denial) []denials.Denial {
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b denials.Denial) int { return cmp.Compare(anyway(&a), anyway(&b)) })
	return out
}

func anyway(d *denials.Denial) int {
	if d.Extra["anyway"] != "" {
		return 1
	}
	return 0
}

// denialRows are the rows of the first denials, in at most that many lines, with one for the number left out.
func denialRows(list []denials.Denial, numbered bool, lines int) (rows [][]cell, shown int) {
	for i, d := range list {
		var block [][]cell
		first := 0
		if anyway(&d) == 1 && (i == 0 || anyway(&list[i-1]) == 0) {
			block = append(block, []cell{cs(faint, "what ordinary permissions deny too:")})
			first = 1
		}
		row := []cell{cs(bold, d.Capability), c(d.Target), c(decider(d)), cs(bold, times(d.Count))}
		if d.Capability == d.Target { // that's all there is to it
			row[0].text = "call"
			if d.Resource == "limits" {
				row[0].text = "limit"
			}
		}
		block = append(block, row)
		if note := d.Extra["note"]; note != "" {
			block = append(block, []cell{c(""), cs(faint, note)})
		}
		if d.Extra["advice"] != "" {
			block = append(block, []cell{c(""), cs(faint, d.Extra["advice"])})
		}
		for at := first; numbered && at < len(block); at++ {
			number := ""
			if at == first {
				number = strconv.Itoa(i + 1)
			}
			block[at] = slices.Insert(block[at], 0, cs(faint, number))
		}
		left := 1
		if i == len(list)-1 {
			left = 0
		}
		if len(rows)+len(block)+left > lines {
			return rows, i
		}
		rows = append(rows, block...)
	}
	return rows, len(list)
}

// grantsOf returns the rules that would allow these denials, each once.
func grantsOf(list []denials.Denial) (grants []string) {
	for _, d := range list {
		if g := strings.TrimSpace(d.Suggest); g != "" && !slices.Contains(grants, g) {
			grants = append(grants, g)
		}
	}
	return grants
}

// linesOf returns the number of lines of grants.
func linesOf(grants []string) (n int) {
	for _, g := range grants {
		n += 1 + strings.Count(g, "\n")
	}
	return n + min(n, 1)
}

// allowHint describes what to do with grants.
func allowHint(policyName string, numbered bool) string {
	switch none := policyName == "default"; {
	case numbered && none:
		return "to allow it, 'toolguard policy init' and 'toolguard allow [N...]', or copy the intended part of this to the end of a policy:"
	case numbered:
		return "to allow it, 'toolguard allow [N...]', or copy the intended part of this to the end of the policy:"
	case none:
		return "to allow it, copy the intended part of this to the end of a policy ('toolguard policy init' writes one):"
	}
	return "to allow it, copy the intended part of this to the end of the policy:"
}

// grants writes what would allow denials as TOML that can be copied as it is, in at most that many lines.
func (s *Screen) grants(grants []string, lines int, where string) {
	if len(grants) == 0 || lines < 1+linesOf(grants[:1]) && lines < linesOf(grants) {
		return
	}
	s.line("  %s", where)
	lines--
	for i, g := range grants {
		n := linesOf(grants[i:i+1]) - 1
		if rest := len(grants) - i; n > lines || n == lines && rest > 1 {
			s.line("  %s", s.in(faint, fmt.Sprintf("# and %d more, which the events have", rest)))
			return
		}
		s.toml(g)
		lines -= n
	}
}

func times(n uint64) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf("×%d", n)
}

// decider describes what denied: the rule and its line, or the reason where there is no rule.
func decider(d denials.Denial) string {
	why := d.Extra["why"] // the mechanism's own words, for what no rule is about
	if why == "" {
		why = explain.Why(policy.Reason(d.Reason), nil)
	}
	switch {
	case d.Resource == "limits" && d.Place != "":
		return fmt.Sprintf("%s (%s, %s)", why, d.Rule, d.Place)
	case d.Rule != "" && d.Place != "" && d.Extra["why"] != "":
		return fmt.Sprintf("%s, %s: %s", d.Rule, d.Place, why)
	case d.Rule != "" && d.Place != "":
		return fmt.Sprintf("%s, %s", d.Rule, d.Place)
	case d.Rule != "":
		return fmt.Sprintf("%s (%s)", why, d.Rule)
	}
	return why
}

// someOf returns the first n words, and the number of the rest.
func someOf(words []string, n int) string {
	if len(words) <= n {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), len(words)-n)
}

// DenialsUnseen reports, after a command that failed, that denials could not be seen.
func (s *Screen) DenialsUnseen(r session.Result, policies []string) {
	defer s.flush()
	check := []string{"toolguard", "check"}
	for _, p := range policies {
		check = append(check, "--policy", p)
	}
	s.line("%sit ended with %d, and whether something was denied can't be seen%s", s.prefix(), r.Code, Clean(whyUnseen(r)))
	s.line("  '%s fs read PATH' shows what the policy allows; 'toolguard doctor' shows what is needed to see denials (--quiet: without this)", Clean(strings.Join(check, " ")))
	if r.NoUnix {
		s.line("  no unix socket can be made here, which tmux, screen and ssh-agent need: docs/BACKENDS.md#everyday-commands")
	}
}
