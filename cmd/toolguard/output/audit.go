package output

import (
	"fmt"

	"github.com/toolguard/toolguard/internal/audit/report"
)

// Audit is the answer of audit verify.
func (s *Screen) Audit(r *report.Report) {
	defer s.flush()
	for i, p := range r.Problems {
		if i == mostErrors {
			s.line("… and %s more: --json has them", Count(len(r.Problems)-i+r.Omitted, "problem"))
			break
		}
		at := p.File
		if p.Line > 0 {
			at = fmt.Sprintf("%s:%d", p.File, p.Line)
		}
		s.line("%s: %s", s.in(bold, Clean(at)), Clean(p.Text))
	}
	if n := len(r.Problems); n > 0 {
		s.line("%s %s; compare with a copy that is stored elsewhere", s.in(red, "not sound:"), Count(n+r.Omitted, "problem"))
	} else {
		s.line("%s nothing was changed, moved, cut off or removed", s.in(green, "sound:"))
	}
	rows := [][]cell{
		{c("audit"), c(r.Chain)},
		{c("records"), c(fmt.Sprintf("%d, from %d to %d, in %s", r.Records, r.First, r.Last, Count(r.Files, "file")))},
		{c("last hash"), c(r.LastHash)},
		{c("signed"), c(fmt.Sprintf("%s, %s", Count(r.Checkpoints, "checkpoint"), Count(len(r.Keys), "key")))},
	}
	if len(r.Keys) > 0 {
		rows = append(rows, []cell{c("first key"), c(r.Keys[0])}, []cell{c("last key"), c(r.Keys[len(r.Keys)-1])})
	}
	for _, more := range []struct {
		n    uint64
		what string
		text string
	}{
		{r.Removed, "removed", fmt.Sprintf("the %s before the first aren't here; the audit's note about the last of them: %s", Count(r.Removed, "record"), r.RemovedWhy)},
		{r.Lost, "lost", fmt.Sprintf("%s couldn't be kept: %s", Count(r.Lost, "event"), Count(r.Gaps, "gap"))},
		{uint64(r.Inexact), "uncounted", fmt.Sprintf("%s of an unknown number, which may be none", Count(r.Inexact, "gap"))},
		{r.Unsigned, "unsigned", fmt.Sprintf("the last %s: no checkpoint has come after yet", Count(r.Unsigned, "record"))},
		{uint64(max(r.Unfinished, 0)), "unfinished", fmt.Sprintf("%s after the end: a write that is under way, or was cut short", Count(uint64(max(r.Unfinished, 0)), "byte"))},
	} {
		if more.n > 0 {
			rows = append(rows, []cell{c(more.what), c(more.text)})
		}
	}
	s.table("  ", rows)
}

// Progress shows a progress line, which the next one replaces. It's for terminals.
func (s *Screen) Progress(format string, args ...any) {
	s.text.WriteString("\r\x1b[K")
	if format != "" {
		s.text.WriteString(s.prefix() + Clean(fmt.Sprintf(format, args...)))
	}
	s.flush()
}

// Amount is about how many bytes there are.
func Amount(n int64) string {
	const units = "KMGT"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	f, unit := float64(n)/1024, 0
	for f >= 1024 && unit < len(units)-1 {
		f, unit = f/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", f, units[unit])
}
