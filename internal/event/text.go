package event

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// appendText writes a line for people. Beneath a denial, it writes the rule that would allow it: TOML to copy, indented by four.
//
//	2026-11-21T08:15:02.123Z denied fs read /etc/passwd  by cat[4711]  no_rule  rule fs.3 (p.toml:4:1)  allow with:
//	    [[access.fs]]
//	    path = "/etc/passwd"
//	    read = true
func appendText(dst []byte, e *Event) []byte {
	dst = append(dst, timestamp(e.Time)...)
	dst = append(append(dst, ' '), summary(e)...)
	for _, part := range details(e) {
		dst = append(append(dst, "  "...), part...)
	}
	dst = append(dst, '\n')
	if e.Kind == Denial && e.Suggest != "" {
		for line := range strings.SplitSeq(strings.TrimSuffix(e.Suggest, "\n"), "\n") {
			dst = append(append(append(dst, "    "...), Plain(line)...), '\n')
		}
	}
	return dst
}

// summary describes the event in a few words. It contains nothing that controls a terminal.
func summary(e *Event) string {
	switch e.Kind {
	case ToolDeny, ToolCall, Approval, Grant, HookFailed:
		return callSummary(e)
	case Denial:
		word := "denied"
		if e.Mode == "audit" {
			word = "would deny"
		}
		return join(word, Plain(e.Resource), Plain(e.Capability), Quote(e.Target), askedFor(e))
	case Exec:
		return join("executed", Quote(e.Target), askedFor(e))
	case SessionStart:
		return join("session", Plain(e.Session), "started under policy", Quote(e.Policy))
	case SessionEnd:
		return join("session", Plain(e.Session), "ended:", outcome(e.Exit))
	case SessionRefused:
		under := ""
		if e.Policy != "" {
			under = " under policy " + Quote(e.Policy)
		}
		return join("session", Plain(e.Session), "not started"+under+":", Quote(e.Target))
	case Gap:
		return join("events were lost:", missing(e), parenthesize(e.Reason))
	case Daemon, Checkpoint:
		return strings.TrimSuffix(join(string(e.Kind)+":", Plain(e.Extra["what"])), ":")
	}
	return Plain(string(e.Kind))
}

func missing(e *Event) string {
	if e.Count == 0 {
		return "an unknown number"
	}
	return strconv.FormatUint(e.Count, 10)
}

// parenthesize puts a remark in parentheses; "" stays empty.
func parenthesize(remark string) string {
	if remark == "" {
		return ""
	}
	return "(" + Plain(remark) + ")"
}

// details returns the parts of the line that not every event has.
func details(e *Event) (parts []string) {
	add := func(label, value string) {
		if value != "" {
			parts = append(parts, label+value)
		}
	}
	if len(e.Process) > 0 {
		add("by ", processLabel(&e.Process[0]))
		if e.Kind == Exec {
			add("as ", commandLine(e.Process[0].Argv))
		}
	}
	if e.Kind == Denial || e.Kind == ToolDeny {
		add("", Plain(e.Reason))
		add("", Plain(e.Errno))
		if e.Rule != "" {
			add("rule ", join(Plain(e.Rule), parenthesize(e.Place)))
		}
		if e.Count > 1 {
			add("×", strconv.FormatUint(e.Count, 10))
		}
	}
	if e.Kind == SessionEnd || e.Kind == SessionRefused {
		add("", Plain(e.Reason))
	}
	for _, d := range e.Degraded {
		add("not enforced: ", Plain(d))
	}
	add("removed from its environment: ", Plain(strings.Join(e.Removed, ", ")))
	for _, k := range slices.Sorted(maps.Keys(e.Extra)) {
		if k == "what" && (e.Kind == Daemon || e.Kind == Checkpoint) {
			continue // the summary has it
		}
		if e.Kind.IsAboutCall() && summarized(e, k) {
			continue
		}
		if k == "arguments" { // JSON, whose end is visible
			add("arguments=", Plain(e.Extra[k]))
			continue
		}
		add(plainKey(k)+"=", Quote(e.Extra[k]))
	}
	if e.Kind == Denial && e.Suggest != "" {
		parts = append(parts, "allow with:")
	}
	return parts
}

func processLabel(p *Process) string {
	name := p.Comm
	if i := strings.LastIndexByte(p.Exe, '/'); name == "" && i >= 0 {
		name = p.Exe[i+1:]
	}
	if p.PID > 0 {
		return Quote(first(name, "process")) + "[" + strconv.Itoa(p.PID) + "]"
	}
	return Quote(name)
}

func askedFor(e *Event) string {
	if e.Asked == "" || e.Asked == e.Target {
		return ""
	}
	return "(asked for " + Quote(e.Asked) + ")"
}

func outcome(x *Exit) string {
	if x == nil {
		return "unknown"
	}
	s := "exit " + strconv.Itoa(x.Code)
	if x.Signal != 0 {
		s = "signal " + strconv.Itoa(x.Signal)
	}
	return s + ", " + x.Wall.Round(1e6).String() + ", " + strconv.FormatUint(x.Denials, 10) + " denials"
}

// join joins the words that aren't empty with spaces.
func join(words ...string) string {
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), " ")
}

// Quote makes a string safe to print and its ends visible. A string with a space, a quote, a backslash or anything but printable
// characters becomes a Go string. "" stays empty.
func Quote(s string) string {
	for _, r := range s {
		if !strconv.IsGraphic(r) || !strconv.IsPrint(r) || r == ' ' || r == '"' || r == '\\' || r == utf8.RuneError {
			return strconv.Quote(s)
		}
	}
	return s
}

// Plain makes a sentence safe to print: it escapes everything that isn't printable.
func Plain(s string) string {
	clean := utf8.ValidString(s)
	for _, r := range s {
		clean = clean && strconv.IsPrint(r)
	}
	if clean {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// plainKey replaces what a member's name may not contain by _.
func plainKey(k string) string {
	return strings.Map(func(r rune) rune {
		if r == '_' || r == '.' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, k)
}
