package output

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
)

// Sessions is the answer of sessions list.
func (s *Screen) Sessions(list []api.Session) {
	defer s.flush()
	if len(list) == 0 {
		s.line("no session runs under toolguardd that you may see")
		return
	}
	rows := [][]cell{{cs(faint, "session"), cs(faint, "state"), cs(faint, "user"), cs(faint, "since"), cs(faint, "denied"), cs(faint, "processor"), cs(faint, "memory"), cs(faint, "read"), cs(faint, "written"), cs(faint, "policy"), cs(faint, "command")}}
	for _, x := range list {
		processor, memory, read, written := figures(x.Usage)
		rows = append(rows, []cell{
			cs(bold, x.ID), c(string(x.State)), c(fmt.Sprint(x.UID)), c(since(x.Started)), c(fmt.Sprint(x.Denied)),
			c(processor), c(memory), c(read), c(written), c(x.Policy), c(CommandLine(x.Argv)),
		})
	}
	s.table("", rows)
}

// Session is the answer of sessions show.
func (s *Screen) Session(x api.Session) {
	defer s.flush()
	denied := fmt.Sprint(x.Denied)
	if x.Unreported > 0 {
		denied += fmt.Sprintf(", %d of them without an event: too many at once", x.Unreported)
	}
	rows := [][]cell{
		{c("session"), cs(bold, x.ID)},
		{c("state"), c(string(x.State))},
		{c("command"), c(CommandLine(x.Argv))},
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
	if x.Usage != nil {
		rows = append(rows, usageRows(x.Usage)...)
	}
	s.table("", rows)
}

// usageRows returns the rows of a session's resource usage.
func usageRows(u *event.Usage) (rows [][]cell) {
	processor, memory, read, written := figures(u)
	if u.CPU != nil {
		rows = append(rows, []cell{c("processor"), c(processor)})
	}
	if u.Memory != nil {
		rows = append(rows, []cell{c("memory"), c(memory + " at most")})
	}
	if u.Read != nil {
		rows = append(rows, []cell{c("disk"), c(read + " read, " + written + " written")})
	}
	if u.Missing != "" {
		rows = append(rows, []cell{c("uncounted"), c(u.Missing)})
	}
	return rows
}

// figures formats the known resource usage of a session.
func figures(u *event.Usage) (processor, memory, read, written string) {
	if u == nil {
		u = &event.Usage{}
	}
	format := func(n *uint64, as func(int64) string) string {
		if n == nil {
			return "-"
		}
		return as(int64(*n))
	}
	seconds := func(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }
	return format(u.CPU, seconds), format(u.Memory, Amount), format(u.Read, Amount), format(u.Written, Amount)
}

// since returns the time since t.
func since(t time.Time) string { return max(0, time.Since(t)).Round(time.Second).String() }

// CommandLine is a command on one line, cut where it's long.
func CommandLine(argv []string) string {
	line := []rune(strings.Join(argv, " "))
	if len(line) > widest {
		return string(line[:widest-1]) + "…"
	}
	return string(line)
}
