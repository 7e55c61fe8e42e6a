package main

import (
	"fmt"
	"time"
)

// summary is the answer of report: the session, then what the report after a command says.
func (s *screen) summary(x *summary) {
	rows := [][]cell{{c("session"), cs(bold, x.Session)}}
	for _, more := range [][2]string{{"command", commandLine(x.argv())}, {"tool", x.tool}, {"agent", x.agent}, {"user", x.owner}, {"policy", x.policy}} {
		if more[1] != "" {
			rows = append(rows, []cell{c(more[0]), c(more[1])})
		}
	}
	if x.start != nil {
		rows = append(rows, []cell{c("began"), c(x.start.Time.Local().Format(time.DateTime))})
	}
	ended := x.ending()
	if x.end != nil {
		ended = fmt.Sprintf("%s, %s", x.end.Time.Local().Format(time.DateTime), ended)
	}
	rows = append(rows, []cell{c("ended"), c(ended)})
	if x.end != nil && x.end.Exit != nil {
		e := x.end.Exit
		used := "for " + e.Wall.Round(time.Millisecond).String()
		if e.MaxRSS > 0 && e.Usage == nil {
			used += fmt.Sprintf(", processor %v, memory %s", (e.User + e.System).Round(time.Millisecond), amount(int64(e.MaxRSS)))
		}
		rows = append(rows, []cell{c("ran"), c(used)})
		if e.Usage != nil {
			rows = append(rows, taken(e.Usage)...)
		}
	}
	if n := x.executed + x.unrecorded; n > 0 {
		programs := count(n, "program")
		if x.unrecorded > 0 {
			programs += fmt.Sprintf(", %d of them only counted", x.unrecorded)
		}
		rows = append(rows, []cell{c("executed"), c(programs)})
	}
	s.table("", rows)
	if x.start != nil && len(x.start.Degraded) > 0 {
		s.line("not enforced")
		s.list("  ", x.start.Degraded)
	}
	x.result.Visible = true
	s.report(x.result, x.policy, reported{rest: " (--json has them)", lines: reportLines})
	if x.others > 0 {
		s.line("  and %s of other kinds, beyond the first %d: the events have them", count(x.others, "denial"), mostListed)
		s.flush()
	}
}
