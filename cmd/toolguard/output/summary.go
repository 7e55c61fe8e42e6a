package output

import (
	"fmt"
	"strconv"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session"
)

// Summary is the answer of report: the session, then the report after a command.
func (s *Screen) Summary(x *session.Summary) {
	rows := [][]cell{{c("session"), cs(bold, x.Session)}}
	for _, more := range [][2]string{{"command", CommandLine(x.Argv())}, {"tool", x.Tool}, {"agent", x.Agent}, {"user", x.Owner}, {"policy", x.Policy}} {
		if more[1] != "" {
			rows = append(rows, []cell{c(more[0]), c(more[1])})
		}
	}
	if x.Start != nil {
		rows = append(rows, []cell{c("began"), c(x.Start.Time.Local().Format(time.DateTime))})
	}
	ended := ending(x)
	if x.End != nil {
		ended = fmt.Sprintf("%s, %s", x.End.Time.Local().Format(time.DateTime), ended)
	}
	rows = append(rows, []cell{c("ended"), c(ended)})
	if x.End != nil && x.End.Exit != nil {
		e := x.End.Exit
		used := "for " + e.Wall.Round(time.Millisecond).String()
		if e.MaxRSS > 0 && e.Usage == nil {
			used += fmt.Sprintf(", processor %v, memory %s", (e.User + e.System).Round(time.Millisecond), Amount(int64(e.MaxRSS)))
		}
		rows = append(rows, []cell{c("ran"), c(used)})
		if e.Usage != nil {
			rows = append(rows, usageRows(e.Usage)...)
		}
	}
	if n := x.Executed + x.Unrecorded; n > 0 {
		programs := Count(n, "program")
		if x.Unrecorded > 0 {
			programs += fmt.Sprintf(", %d of them only counted", x.Unrecorded)
		}
		rows = append(rows, []cell{c("executed"), c(programs)})
	}
	if x.Calls.Any() {
		rows = append(rows, []cell{c("calls"), c(callCounts(&x.Calls))})
	}
	s.table("", rows)
	s.calls(&x.Calls)
	if x.Start != nil && len(x.Start.Degraded) > 0 {
		s.line("not enforced")
		s.list("  ", x.Start.Degraded)
	}
	x.Result.Visible = true
	s.Report(x.Result, x.Policy, ReportOptions{Rest: " (--json has them)", Lines: ReportLines})
	if x.Others > 0 {
		s.line("  and %s of other kinds, beyond the first %d: the events have them", Count(x.Others, "denial"), session.MostListed)
		s.flush()
	}
}

// ending describes how the session ended.
func ending(s *session.Summary) string {
	switch {
	case s.End != nil && s.End.Kind == event.SessionRefused:
		return "not started: " + s.End.Extra["why"]
	case s.End == nil:
		return "unknown: it runs, or its last events are lost"
	case s.End.Exit == nil || s.End.Exit.Code < 0:
		return "not seen"
	case s.End.Exit.Signal != 0:
		return "signal " + strconv.Itoa(s.End.Exit.Signal)
	}
	return "exit status " + strconv.Itoa(s.End.Exit.Code)
}
