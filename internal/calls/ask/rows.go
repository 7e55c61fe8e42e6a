package ask

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Row is a line of an approval: a name, and escaped text.
type Row struct {
	Name string
	Text string
	Warn bool // what the person should look at
}

// Rows are what a person sees of an approval, escaped, the most important first. What differs between two approvals differs here.
func Rows(a *message.Approval) (rows []Row) {
	add := func(name, text string) { rows = append(rows, Row{Name: name, Text: text}) }
	path := func(name, path, after string) {
		add(name, Quote(path)+after)
		rows = append(rows, warnings(path)...)
	}
	if a.Tool == "" {
		add("asks for", "a grant")
	} else {
		path("tool", a.Tool, "")
	}
	switch {
	case len(a.Argv) > 0:
		add("runs", QuoteAll(a.Argv))
		for _, arg := range a.Argv {
			rows = append(rows, warnings(arg)...)
		}
	case len(a.Arguments) > 0:
		add("arguments", Escape(string(a.Arguments)))
		rows = append(rows, warnings(string(a.Arguments))...)
	}
	if a.Tool == "" {
		rows = append(rows, rule("adds", a.Rule)...)
	}
	if a.Cwd != "" {
		path("in", a.Cwd, "")
	}
	if a.Exe != nil {
		path("program", a.Exe.Path, digest(a.Exe.SHA256))
	}
	for _, f := range a.Files {
		path("file", f.Path, digest(f.SHA256))
	}
	if a.Agent != "" {
		path("agent", a.Agent, "")
	}
	if a.Risk != "" {
		rows = append(rows, Row{"risk", Escape(a.Risk), a.Risk == "high" || a.Risk == "critical"})
	}
	if a.Reason != "" {
		name := "reason"
		if a.Tool == "" {
			name = "it says" // the requester, who may lie
		}
		add(name, Escape(a.Reason))
	}
	if a.Tool != "" && slices.Contains(a.Offers, message.AllowAlways) {
		rows = append(rows, rule("always", a.Rule)...)
	}
	return slices.CompactFunc(rows, func(a, b Row) bool { return a.Warn && a == b })
}

// rule has one row for each line of TOML.
func rule(name, toml string) (rows []Row) {
	for line := range strings.Lines(strings.TrimRight(toml, "\n")) {
		rows = append(rows, Row{Name: name, Text: Escape(strings.TrimSuffix(line, "\n"))})
		rows = append(rows, warnings(line)...)
		name = ""
	}
	return rows
}

func warnings(text string) []Row {
	if why := alike(text); why != "" {
		return []Row{{"warning", why, true}}
	}
	return nil
}

// digest is the beginning of a digest.
func digest(sha256 string) string {
	if sha256 == "" {
		return ""
	}
	return " (sha256 " + Escape(sha256[:min(len(sha256), 12)]) + ")"
}

// Summary is an approval on one line, escaped.
func Summary(a *message.Approval) string {
	switch {
	case a.Tool == "":
		return "a grant: " + Escape(strings.Join(strings.Fields(a.Rule), " "))
	case len(a.Argv) > 0:
		return Quote(a.Tool) + ": " + QuoteAll(a.Argv)
	}
	return Quote(a.Tool) + " " + Escape(string(a.Arguments))
}

// Left is the time until an approval expires.
func Left(a *message.Approval, now time.Time) string {
	if a.Expires == 0 {
		return "no time limit"
	}
	left := max(time.UnixMilli(a.Expires).Sub(now), 0).Round(time.Second)
	return fmt.Sprintf("%s left", left)
}

// Outcome is how an approval ended, on one line. gone means that it's no longer listed.
func Outcome(a *message.Approval, gone bool, now time.Time) string {
	switch {
	case a.Decision != nil && a.ResolvedBy != nil:
		b := a.ResolvedBy
		return fmt.Sprintf("%s, by user %d (process %d, %s, %s)", Escape(*a.Decision), b.UID, b.PID, Quote(b.Exe), Escape(b.Via))
	case a.Decision != nil:
		return Escape(*a.Decision)
	case a.Expires != 0 && now.UnixMilli() >= a.Expires && (a.Resolved == 0 || a.Resolved >= a.Expires):
		return "expired: nobody answered in time"
	case gone || a.Resolved != 0:
		return "withdrawn"
	}
	return "pending"
}
