package output

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/backend"
)

// Agent is a coding agent, as its screens name it.
type Agent struct {
	Program string // what it's called on the command line
	Preset  string // without "preset:"
	Note    string // a note before the start; may be empty
}

// NamesPreset lets a session look up names itself.
const NamesPreset = "preset:dns"

// AboutHosts reports whether a row of the report is of a rule about hosts.
func AboutHosts(row policy.Enforceability) bool { return row.Rule != nil && row.Rule.Net != nil }

// BeginAgent prints three lines before a coding agent starts: what is enforced, what isn't, and how to enforce more.
func (s *Screen) BeginAgent(x Agent, r backend.Report, c *policy.Compiled) {
	s.Message("%s runs under %s: it may change %s and its own state, and connect to %s; policy %s", x.Program, r.Backend, c.Workspace, hostsText(c), presetsText(x, c))
	s.Message("%s", shortText(x, r))
	s.Message("where it's denied something: 'toolguard why' explains, 'toolguard allow --policy FILE' grants, and 'toolguard agent %s --policy FILE' uses FILE", x.Program)
}

// hostsText are the hosts that the session's files grant.
func hostsText(c *policy.Compiled) string {
	var hosts []string
	for _, l := range c.Layers {
		for _, r := range l.Net.Rules() {
			if l.Authority == policy.Session && r.Net.Allow && r.Position.File != NamesPreset && !slices.Contains(hosts, r.Net.Host) {
				hosts = append(hosts, r.Net.Host)
			}
		}
	}
	if hosts == nil {
		return "no host"
	}
	return someOf(hosts, 4)
}

// presetsText are the presets that count.
func presetsText(x Agent, c *policy.Compiled) string {
	names := []string{x.Preset}
	for _, d := range c.Detected {
		names = append(names, strings.TrimPrefix(d.Preset, "preset:"))
	}
	return "presets " + strings.Join(names, ", ")
}

// shortText describes what isn't enforced, each kind with its reasons, and what would enforce it.
func shortText(x Agent, r backend.Report) string {
	text := "all of the policy is enforced"
	if parts := shortfalls(r.Notes); parts != nil {
		text = "not enforced: " + strings.Join(parts, ", ")
		if r.Instead != "" {
			text += "; to have it enforced, " + r.Instead
		}
	}
	if slices.ContainsFunc(r.Rows, func(row policy.Enforceability) bool {
		return row.Stricter && row.Rule != nil && row.Rule.FS != nil && row.Rule.FS.Last != "" && row.Rule.Position.File == "preset:"+x.Preset
	}) {
		text += fmt.Sprintf("; %s won't start: it makes files next to its settings, which %s can't grant without these (docs/agents.md has the solutions)", x.Program, r.Backend)
	}
	if x.Note != "" {
		text += "; " + x.Note
	}
	return text
}

// shortfalls are the kinds of rules that aren't enforced, each with its reasons.
func shortfalls(notes []policy.Enforceability) (parts []string) {
	var hosts, others []policy.Enforceability
	protected, secrets := 0, 0
	var why []string
	for _, row := range notes {
		switch kind := row.ID[:max(strings.LastIndexByte(row.ID, '.'), 0)]; {
		case AboutHosts(row):
			hosts = append(hosts, row)
			_, what, _ := strings.Cut(row.Why, ": ")
			if what, _, _ = strings.Cut(what, "; "); !slices.Contains(why, what) {
				why = append(why, what)
			}
		case strings.HasSuffix(kind, "protect"):
			protected++
		case strings.HasSuffix(kind, "secrets"):
			secrets++
		default:
			others = append(others, row)
		}
	}
	if hosts != nil {
		parts = append(parts, fmt.Sprintf("hosts (%s)", strings.Join(why, "; ")))
	}
	if protected > 0 {
		parts = append(parts, fmt.Sprintf("protect (%d rules: where it may write, as in the workspace, it may also write .git/hooks, .mcp.json and the like)", protected))
	}
	if secrets > 0 {
		parts = append(parts, fmt.Sprintf("secrets (%d rules: where it may read, as in the workspace, it may also read .env and the like)", secrets))
	}
	if others != nil {
		reason, _, _ := strings.Cut(others[0].Why, ": ")
		parts = append(parts, fmt.Sprintf("%s (%s)", degraded(others), reason))
	}
	return parts
}
