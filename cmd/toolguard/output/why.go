package output

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/grant/lastrun"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/userfiles"
)

// manyLines is more than the lines of all stored denials.
const manyLines = 1 << 20

// runLine describes the run.
func (s *Screen) runLine(run *userfiles.Run) {
	s.line("%s ended with %d, %s, in %s", s.in(bold, Clean(CommandLine(run.Argv))), run.Code, run.Time.Local().Format(time.DateTime), Clean(run.Workspace))
}

// LastRun is the report of the last run, all of it.
func (s *Screen) LastRun(run *userfiles.Run) {
	s.runLine(run)
	s.Report(resultOf(run), run.Policy, ReportOptions{Numbered: true, Lines: manyLines})
}

// Denial prints a denial that no rule decided.
func (s *Screen) Denial(run *userfiles.Run, n int) {
	defer s.flush()
	s.runLine(run)
	d := resultOf(run).Denials[n-1]
	rows, _ := denialRows([]denials.Denial{d}, false, manyLines)
	s.table("", rows)
	if g := strings.TrimSpace(d.Suggest); g != "" {
		s.line("to allow it, copy this to the end of the policy:")
		s.toml(g)
	}
}

// Explained prints a denial with the rules that matched.
func (s *Screen) Explained(run *userfiles.Run, n int, q explain.Question, e explain.Explanation, h backend.Here) {
	s.runLine(run)
	if e.Answer.Decision == "allow" {
		s.line("it was denied then, and the policy allows it now:")
	}
	if text := run.Denials[n-1].Extra["advice"]; text != "" && e.Answer.Advice == "" && e.Answer.Decision != "allow" {
		e.Answer.Advice, e.Answer.Suggest = text, run.Denials[n-1].Suggest
	}
	s.Explanation(q, e, h)
}

// Addition prints the rules to add to a policy, and the denials without one.
func (s *Screen) Addition(file string, diff []string, left []lastrun.NotAdded) {
	defer s.flush()
	if len(diff) > 0 {
		s.line("%s", s.in(bold, Clean(file)))
	}
	for _, line := range diff {
		st := green
		if line[0] == '-' {
			st = red
		}
		s.line("%s", s.in(st, Clean(line)))
	}
	for _, l := range left {
		s.line("%s", Clean(fmt.Sprintf("not added: %d (%s %s): %s", l.N, l.Denial.Capability, l.Denial.Target, l.Why.Reason)))
		if l.Why.Hint != "" {
			s.toml(l.Why.Hint)
		}
	}
}

// Question asks for a yes or no, on the line that the answer is typed on.
func (s *Screen) Question(text string) {
	s.text.WriteString(s.prefix() + text + " [y/N] ")
	s.flush()
}

// LineDiff is how one text differs from another, in lines that begin with "- " and "+ ". Where lines were only added, or changed without
// their number, it has no other lines.
func LineDiff(old, now string) (diff []string) {
	before, after := strings.Split(strings.TrimRight(old, "\n"), "\n"), strings.Split(strings.TrimRight(now, "\n"), "\n")
	for i, line := range after {
		switch {
		case i >= len(before):
			diff = append(diff, strings.TrimRight("+ "+line, " "))
		case line != before[i]:
			diff = append(diff, "- "+before[i], "+ "+line)
		}
	}
	return diff
}

// resultOf converts a run for a report.
func resultOf(r *userfiles.Run) session.Result {
	out := session.Result{
		Code: r.Code, RemovedEnv: r.Removed,
		Summary: denials.Summary{Total: r.Total, Visible: r.Unseen == "", WhyUnseen: r.Unseen},
	}
	for i := range r.Denials {
		d := &r.Denials[i]
		out.Denials = append(out.Denials, denials.Denial{Count: d.Count, Event: event.Event{
			Resource: d.Resource, Capability: d.Capability, Target: d.Target, Asked: d.Asked, Reason: d.Reason, Rule: d.Rule, Place: d.Place,
			Suggest: d.Suggest, Mechanism: d.Mechanism, Errno: d.Errno, Extra: d.Extra,
		}})
	}
	return out
}
