package event

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documentPage is docs/events.md, which describes every event and each of its fields.
func documentPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/events.md")
	must(t, err)
	return string(text)
}

// TestDocumentedFields checks that the page names every field and no other.
func TestDocumentedFields(t *testing.T) {
	there := map[string]bool{}
	for _, e := range append(slices.Collect(maps.Values(samples())), fullEvent()) {
		var line map[string]any
		must(t, json.Unmarshal(OCSF.Append(nil, &e), &line))
		collect(there, "", line)
	}
	_, fields, _ := strings.Cut(documentPage(t), "\n## Fields\n")
	fields, _, _ = strings.Cut(fields, "\n##")
	named := firstCells(fields)
	for name := range there {
		if !named[name] {
			t.Errorf("docs/events.md doesn't describe %s", name)
		}
	}
	for name := range named {
		if !there[name] {
			t.Errorf("docs/events.md describes %s, which no event has", name)
		}
	}
}

// firstCells returns the words in backticks in the first cells of a table's rows.
func firstCells(table string) map[string]bool {
	named := map[string]bool{}
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				named[m[1]] = true
			}
		}
	}
	return named
}

// collect adds the paths of an object's members. The page describes a process and a fingerprint once.
func collect(names map[string]bool, prefix string, o map[string]any) {
	for k, v := range o {
		if list, ok := v.([]any); ok && len(list) == 1 {
			v = list[0]
		}
		in, ok := v.(map[string]any)
		name := prefix + k
		switch {
		case !ok:
			names[name] = true
		case k == "extra":
			names[name] = true // TestDocumentedExtra checks its members
		case k == "process" || k == "parent_process" || k == "fingerprint":
			names[name] = true
			collect(names, strings.TrimPrefix(k, "parent_")+".", in)
		default:
			collect(names, name+".", in)
		}
	}
}

// TestDocumentedVerdicts checks the page's class, severity, action and disposition of each kind.
func TestDocumentedVerdicts(t *testing.T) {
	text := documentPage(t)
	for name, e := range map[string]Event{
		"`denial`":                        denial("fs", "read", "/x"),
		"`denial`, reason `protected`":    {Kind: Denial, Reason: "protected"},
		"`denial`, reason `engine_error`": {Kind: Denial, Reason: "engine_error"},
		"`denial` in mode `audit`":        {Kind: Denial, Mode: "audit"},
		"`session_start`":                 {Kind: SessionStart},
		"`session_end`":                   {Kind: SessionEnd, Exit: &Exit{}},
		"`session_refused`":               {Kind: SessionRefused},
		"`exec`":                          {Kind: Exec},
		"`gap`":                           {Kind: Gap},

		"`tool_denied`": {Kind: ToolDeny, Reason: "rule_denies"},
		"`tool_denied`, reason `approval_denied` or `approval_timeout`": {Kind: ToolDeny, Reason: "approval_timeout"},
		"`tool_denied`, reason `protected`":                             {Kind: ToolDeny, Reason: "protected"},
		"`tool_denied`, reason `engine_error`":                          {Kind: ToolDeny, Reason: "engine_error"},
		"`tool_call`":                                                   ToolRan(call(), OK, 0, false, false),
		"`tool_call`, approved by a person":                             ToolRan(call(), OK, 0, false, true),
		"`tool_call`, changed by hooks":                                 ToolRan(call(), OK, 0, true, false),
		"`tool_call`, changed and approved":                             ToolRan(call(), OK, 0, true, true),
		"`approval`, `grant`: requested":                                ApprovalRequested(call(), "a1", "x"),
		"`approval`, `grant`: allowed":                                  ApprovalDecided(call(), "a1", "allow-once", "", Decider{}),
		"`approval`, `grant`: denied":                                   ApprovalDecided(call(), "a1", "deny", "", Decider{}),
		"`approval`, `grant`: expired, withdrawn":                       ApprovalEnded(call(), "a1", Expired),
		"`hook_failed`":                                                 HookFailure(call(), "x", "after", "y"),
	} {
		v, a := verdictOf(&e), activityOf(&e)
		class := fmt.Sprint(a.uid)
		if e.Kind == Denial {
			class = "by its resource"
		}
		row := fmt.Sprintf("| %s | %s | %s (%d) | %s (%d) | %s (%d) |\n", name, class, severityNames[v.severity], v.severity,
			actionNames[v.action], v.action, dispositionNames[v.disposition], v.disposition)
		if !strings.Contains(text, row) {
			t.Errorf("docs/events.md has no row\n%s", row)
		}
	}
}

// TestDocumentedActivities checks the page's class and activity of every kind of denial.
func TestDocumentedActivities(t *testing.T) {
	text := documentPage(t)
	for _, of := range [][2]string{
		{"fs", "read"},
		{"fs", "create"},
		{"fs", "update"},
		{"fs", "delete"},
		{"fs", "execute"},
		{"fs", "rename or link"},
		{"commands", "execute"},
		{"net", "connect"},
		{"net", "listen"},
		{"env", "read"},
		{"limits", "wall_time"},
		{"syscall", "mount"},
		{"always", "mount"},
	} {
		e := denial(of[0], of[1], "")
		a := activityOf(&e)
		capability := "`" + of[1] + "`"
		switch of[0] {
		case "limits", "syscall", "always":
			capability = "any"
		}
		row := fmt.Sprintf("| `%s` | %s | %d | %s | %d |\n", of[0], capability, a.uid, a.name, a.id)
		if !strings.Contains(text, row) {
			t.Errorf("docs/events.md has no row\n%s", row)
		}
	}
}

var kindConstant = regexp.MustCompile(`Kind += "([a-z_]+)"`)

// TestDocumentedExtra checks that the page describes every key of Extra.
func TestDocumentedExtra(t *testing.T) {
	_, rows, _ := strings.Cut(documentPage(t), "\n### In `unmapped.extra`\n")
	rows, _, _ = strings.Cut(rows, "\n##")
	named, found := firstCells(rows), 0
	for _, dir := range []string{".", "../session", "../session/denials"} {
		files, err := os.ReadDir(dir)
		must(t, err)
		for _, f := range files {
			if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
				continue
			}
			code, err := os.ReadFile(dir + "/" + f.Name())
			must(t, err)
			for _, m := range regexp.MustCompile(`(?:Extra\[|\.set\()"([a-z_.]+)"`).FindAllStringSubmatch(string(code), -1) {
				found++
				if !named[m[1]] {
					t.Errorf("%s: docs/events.md doesn't describe %s", f.Name(), m[1])
				}
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d found", found)
	}
}

// documentExamples has an example of each kind, as the page shows it.
func documentExamples() string {
	var b strings.Builder
	all := samples()
	for _, name := range []string{
		"session_start", "session_refused", "exec", "fs_read", "net_connect", "env", "command", "syscall", "limit", "gap", "daemon", "checkpoint", "session_end",
		"tool_denied", "tool_call", "approval_requested", "approval", "grant", "hook_failed",
	} {
		e := redact(all[name])
		title := string(e.Kind)
		if e.Kind == Denial {
			title += ", " + e.Resource
		}
		if e.Kind == Approval || e.Kind == Grant {
			title += ", " + e.Extra["what"]
		}
		fmt.Fprintf(&b, "\n### %s\n\n```text\n%s```\n\n```jsonl\n%s```\n", title, Text.Append(nil, &e), OCSF.Append(nil, &e))
	}
	return b.String()
}

const beforeExamples, afterExamples = "\n## An example of each kind\n", "\n## What isn't in them\n"

// TestDocumentedExamples checks the page's examples against the output, and that the page describes every kind with an example.
func TestDocumentedExamples(t *testing.T) {
	text, want := documentPage(t), documentExamples()
	before, rest, ok := strings.Cut(text, beforeExamples)
	shown, after, end := strings.Cut(rest, afterExamples)
	if !ok || !end {
		t.Fatalf("docs/events.md has no part%sbefore%s", beforeExamples, afterExamples)
	}
	if *update {
		text = before + beforeExamples + want + afterExamples + after
		must(t, os.WriteFile("../../docs/events.md", []byte(text), 0o644))
	} else if shown != want {
		t.Errorf("docs/events.md shows\n%s\nnot\n%s", shown, want)
	}
	code, err := os.ReadFile("event.go")
	must(t, err)
	kinds := kindConstant.FindAllStringSubmatch(string(code), -1)
	if len(kinds) < 6 {
		t.Fatalf("only %d kinds found", len(kinds))
	}
	for _, k := range kinds {
		if !strings.Contains(want, "\n### "+k[1]) || !strings.Contains(text, "\n| `"+k[1]+"` |") {
			t.Errorf("docs/events.md doesn't describe %s, or has no example of it", k[1])
		}
	}
}
