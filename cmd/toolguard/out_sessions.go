package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/api"
)

// sessions is the answer of sessions list.
func (s *screen) sessions(list []api.Session) {
	defer s.flush()
	if len(list) == 0 {
		s.line("no session runs under toolguardd that you may see")
		return
	}
	rows := [][]cell{{cs(faint, "session"), cs(faint, "state"), cs(faint, "user"), cs(faint, "since"), cs(faint, "denied"), cs(faint, "policy"), cs(faint, "command")}}
	for _, x := range list {
		rows = append(rows, []cell{
			cs(bold, x.ID), c(string(x.State)), c(fmt.Sprint(x.UID)), c(since(x.Started)), c(fmt.Sprint(x.Denied)), c(x.Policy),
			c(commandLine(x.Argv)),
		})
	}
	s.table("", rows)
}

// session is the answer of sessions show.
func (s *screen) session(x api.Session) {
	defer s.flush()
	denied := fmt.Sprint(x.Denied)
	if x.Untold > 0 {
		denied += fmt.Sprintf(", %d of them without an event: too many at once", x.Untold)
	}
	rows := [][]cell{
		{c("session"), cs(bold, x.ID)},
		{c("state"), c(string(x.State))},
		{c("command"), c(commandLine(x.Argv))},
		{c("since"), c(fmt.Sprintf("%s (%s)", x.Started.Local().Format(time.DateTime), since(x.Started)))},
		{c("user"), c(fmt.Sprint(x.UID))},
		{c("toolguard"), c(fmt.Sprintf("process %d", x.PID))},
		{c("policy"), c(fmt.Sprintf("%s (%.12s), %s", x.Policy, x.Digest, strings.Join(x.Files, ", ")))},
		{c("reloads"), c(fmt.Sprint(x.Reloads))},
		{c("workspace"), c(x.Workspace)},
		{c("threads"), c(fmt.Sprint(x.Tasks))},
		{c("denied"), c(denied)},
	}
	for _, more := range [][2]string{{"tool", x.Tool}, {"agent", x.Agent}, {"within", x.Within}, {"cgroup", x.Cgroup}} {
		if more[1] != "" {
			rows = append(rows, []cell{c(more[0]), c(more[1])})
		}
	}
	s.table("", rows)
}

// since is how long ago something was.
func since(t time.Time) string { return max(0, time.Since(t)).Round(time.Second).String() }

// commandLine is a command on one line, cut where it's long.
func commandLine(argv []string) string {
	line := []rune(strings.Join(argv, " "))
	if len(line) > widest {
		return string(line[:widest-1]) + "…"
	}
	return string(line)
}
