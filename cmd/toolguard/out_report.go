package main

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session"
)

// reportLines is the most that the report after a command takes.
const reportLines = 20

// report tells what was denied while the command ran, and where the rest is when that's too much.
func (s *screen) report(r session.Result, name, rest string) {
	defer s.flush()
	if !r.Visible && len(r.Denials) == 0 {
		s.line("%sthis user can't see what the kernel denies: 'toolguard doctor' says what that takes (policy %s)", s.prefix(), clean(name))
	} else {
		s.line("%s%s (policy %s)", s.prefix(), s.in(red, count(r.Total, "denial")), clean(name))
	}
	var end []string
	if len(r.RemovedEnv) > 0 {
		end = append(end, "not in its environment: "+someOf(r.RemovedEnv, 20))
	}
	if r.WhyLost != "" {
		unseen := "some denials may have gone by unseen"
		if r.Lost > 0 {
			unseen = fmt.Sprintf("at least %s went by unseen", count(r.Lost, "denial"))
		}
		end = append(end, unseen+": "+r.WhyLost)
	}
	if r.More > 0 {
		end = append(end, fmt.Sprintf("and %s of what the policy allows: 'toolguard doctor' tells what the backend can't tell apart",
			count(r.More, "denial")))
	}
	if !r.Visible && len(r.Denials) > 0 {
		end = append(end, "what else the kernel denies can't be seen by this user: 'toolguard doctor' says what that takes")
	}
	rows, shown := denialRows(r.Denials, reportLines-1-len(end))
	s.table("  ", rows)
	if n := len(r.Denials) - shown; n > 0 {
		s.line("  … and %d more%s", n, rest)
	}
	for _, e := range end {
		s.line("  %s", clean(e))
	}
}

// denialRows are the rows of the first denials, in at most so many lines, one of which is left for what is left out.
func denialRows(denials []session.Denial, lines int) (rows [][]cell, shown int) {
	for i, d := range denials {
		block := [][]cell{{cs(bold, d.Capability), c(d.Target), c(decider(d)), cs(bold, times(d.Count))}}
		if d.Capability == d.Target { // that's all there is to it
			block[0][0].text = "call"
			if d.Resource == "limits" {
				block[0][0].text = "limit"
			}
		}
		if d.Suggest != "" {
			block = append(block, []cell{c(""), cs(faint, "to allow: "+oneLine(d.Suggest))})
		}
		left := 1
		if i == len(denials)-1 {
			left = 0
		}
		if len(rows)+len(block)+left > lines {
			return rows, i
		}
		rows = append(rows, block...)
	}
	return rows, len(denials)
}

func times(n uint64) string {
	if n <= 1 {
		return ""
	}
	return fmt.Sprintf("×%d", n)
}

// decider says who denied something: the rule and its line, or, where no line of a file did, why.
func decider(d session.Denial) string {
	why := d.Extra["why"] // the mechanism's own words, for what no rule is about
	if why == "" {
		why = reasonText(policy.Reason(d.Reason))
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

// oneLine puts a grant on one line: the table, then its keys.
func oneLine(toml string) string {
	table, keys, _ := strings.Cut(strings.TrimSpace(toml), "\n")
	return strings.TrimSpace(table + " " + strings.ReplaceAll(keys, "\n", ", "))
}

// someOf is the first n words, and how many there are beyond.
func someOf(words []string, n int) string {
	if len(words) <= n {
		return strings.Join(words, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(words[:n], ", "), len(words)-n)
}

// unseen is the one line after a command that failed where nobody can see what was denied. It's for people: a program
// that reads standard error of another one gets no remarks of ours in it.
func (s *screen) unseen(code int) {
	if !s.terminal {
		return
	}
	s.say("it ended with %d; whether something was denied can't be seen by this user ('toolguard doctor' says what that takes, "+
		"'toolguard check' what the policy allows)", code)
}
