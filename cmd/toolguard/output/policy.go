package output

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// Lint is the answer of policy lint.
func (s *Screen) Lint(mistakes policy.Errors, warnings []explain.Warning, here *Starts) {
	defer s.flush()
	for _, m := range mistakes {
		s.finding(red, "error", m.Position, m.Msg, m.Hint)
	}
	for _, w := range warnings {
		s.finding(yellow, "warning", w.Position, w.Msg+" ["+w.Code+"]", w.Hint)
	}
	switch {
	case mistakes != nil:
		s.line("%s", s.in(red, Count(len(mistakes), "error")))
	case warnings != nil:
		s.line("no errors, %s", Count(len(warnings), "warning"))
	default:
		s.line("%s", s.in(green, "no errors, no warnings"))
	}
	if here != nil {
		s.here(here)
	}
}

// here is the last line of lint --here.
func (s *Screen) here(x *Starts) {
	backend, verdict := cmp.Or(x.Backend, "no backend"), s.in(green, "a command would start")
	if !x.Starts {
		verdict = s.in(red, "no command would start")
	}
	if x.Instead != "" {
		verdict += "; for more, " + Clean(x.Instead)
	}
	s.line("here, with %s: %s", backend, verdict)
}

func (s *Screen) finding(st style, kind string, p policy.Position, msg, hint string) {
	s.line("%s: %s: %s", s.in(bold, Clean(p.String())), s.in(st, kind), Clean(msg))
	if hint != "" {
		s.line("  %s", Clean(hint))
	}
}

// Policy is the answer of policy show.
func (s *Screen) Policy(p *policy.Compiled) {
	defer s.flush()
	rows := [][]cell{{c("policy"), cs(bold, p.Name)}, {c("workspace"), c(p.Workspace)}, {c("digest"), c(p.Digest)}}
	for _, f := range p.Files {
		rows = append(rows, []cell{c("file"), c(f)})
	}
	if p.Audit.Exec {
		rows = append(rows, []cell{c("audit"), c(audited(p) + "  (" + p.Audit.Position.String() + ")")})
	}
	s.table("", rows)
	for _, l := range p.Layers {
		s.layer(p, l)
	}
	if len(p.Removed) > 0 {
		s.line("\n%s", s.in(bold, "built-in rules that aren't in force"))
		s.table("  ", removedRows(p))
	}
	if rows := limitRows(p.Limits); rows != nil {
		s.line("\n%s", s.in(bold, "limits"))
		s.table("  ", rows)
	}
}

func (s *Screen) layer(p *policy.Compiled, l *policy.Layer) {
	s.line("\n%s", s.in(bold, l.Authority.String()))
	for r := range policy.NumResources {
		rules := rulesOf(p, l, r)
		if rules == nil && l.Defaults[r] == policy.Undeclared {
			continue
		}
		s.line("  %s, what no rule matches: %s", r, defaultAction(l.Defaults[r]))
		s.table("    ", ruleRows(rules))
	}
	if l.Protect != nil {
		s.line("  protect = %s, what trusted programs obey: no create, update, delete", protectMode(l.Mode))
		s.table("    ", ruleRows(l.Protect.Rules()))
	}
	if l.Secrets != nil {
		s.line("  secrets = %s, where credentials are kept: no read, execute", protectMode(l.SecretsMode))
		s.table("    ", ruleRows(l.Secrets.Rules()))
	}
	s.settings(l)
}

// rulesOf are the rules of one layer on one resource, but for those of protect and secrets.
func rulesOf(p *policy.Compiled, l *policy.Layer, r policy.Resource) (rules []*policy.Rule) {
	for _, rule := range p.Rules {
		if rule.Authority == l.Authority && rule.Resource == r && !slices.Contains(l.Protect.Rules(), rule) && !slices.Contains(l.Secrets.Rules(), rule) {
			rules = append(rules, rule)
		}
	}
	return rules
}

// removedRows are the built-in rules that aren't in force, each with the rule that removes it, or the target of a symlink.
func removedRows(p *policy.Compiled) (rows [][]cell) {
	for _, r := range p.Removed {
		why, at := "a symlink leads to "+r.Link, r.Rule.Position
		if r.By != nil {
			why, at = "because of "+r.By.ID, r.By.Position
		}
		rows = append(rows, []cell{c(r.Rule.ID), c(explain.RuleText(r.Rule)), c(why), cs(faint, position(at))})
	}
	return rows
}

func ruleRows(rules []*policy.Rule) (rows [][]cell) {
	for _, r := range rules {
		rows = append(rows, []cell{c(r.ID), c(explain.RuleText(r)), cs(faint, position(r.Position))})
	}
	return rows
}

// audited describes the recorded events.
func audited(p *policy.Compiled) string {
	if p.Audit.Exec {
		return "exec"
	}
	return "denials"
}

func protectMode(m policy.ProtectMode) string { return [...]string{"false", "auto", "true"}[m] }

// settings are a layer's settings that differ from the default.
func (s *Screen) settings(l *policy.Layer) {
	var rows [][]cell
	add := func(key, value string) { rows = append(rows, []cell{c(key), c(value)}) }
	if l.Namespaces {
		add("namespaces", "true")
	}
	if l.Syscalls.Profile != "" && l.Syscalls.Profile != "default" {
		add("syscalls", l.Syscalls.Profile)
	}
	if len(l.Syscalls.Allow) > 0 {
		add("syscalls allowed", strings.Join(l.Syscalls.Allow, " "))
	}
	if len(l.Syscalls.Deny) > 0 {
		add("syscalls denied", strings.Join(l.Syscalls.Deny, " "))
	}
	if len(l.Capabilities) > 0 {
		add("capabilities", strings.Join(l.Capabilities, " "))
	}
	for _, d := range l.Degraded {
		add("may be degraded", d.ID+"  ("+d.Position.String()+")")
	}
	s.table("  ", rows)
}

func limitRows(l policy.Limits) (rows [][]cell) {
	add := func(name, value string, set bool, p policy.Position) {
		if set {
			rows = append(rows, []cell{c(name), c(value), cs(faint, position(p))})
		}
	}
	add("memory", size(l.Memory.N), l.Memory.N > 0, l.Memory.Position)
	add("pids", fmt.Sprint(l.Pids.N), l.Pids.N > 0, l.Pids.Position)
	add("cpu", fmt.Sprintf("%d%%", l.CPU.N), l.CPU.N > 0, l.CPU.Position)
	add("io", size(l.IO.N)+"/s", l.IO.N > 0, l.IO.Position)
	add("wall_time", span(l.WallTime.D), l.WallTime.D > 0, l.WallTime.Position)
	add("open_files", fmt.Sprint(l.OpenFiles.N), l.OpenFiles.N > 0, l.OpenFiles.Position)
	add("file_size", size(l.FileSize.N), l.FileSize.N > 0, l.FileSize.Position)
	return rows
}

// span is a duration without the parts that are zero.
func span(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// size is a number of bytes in the largest unit that needs no fraction.
func size(n uint64) string {
	unit := 0
	for n > 0 && n%1024 == 0 && unit < 4 {
		n /= 1024
		unit++
	}
	return fmt.Sprintf("%d%s", n, [...]string{"B", "KiB", "MiB", "GiB", "TiB"}[unit])
}
