package explain

import (
	"fmt"
	"path"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Unmatched returns a warning for each rule of the session's files that can match nothing on this machine.
func Unmatched(c *policy.Compiled, sys fspath.FileSystem) []Warning {
	var out []Warning
	for _, r := range c.Rules {
		if r.Authority != policy.Session || r.Builtin() {
			continue
		}
		if why, hint := unmatched(c, sys, r); why != "" {
			out = append(out, Warning{r.Position, "missing", r.ID + ": " + why, hint})
		}
	}
	return out
}

// unmatched returns why a rule matches nothing; "" where it can match something.
func unmatched(c *policy.Compiled, sys fspath.FileSystem, r *policy.Rule) (why, hint string) {
	switch {
	case r.Command != nil && r.Command.Program == "":
		if lower := strings.ToLower(r.Command.Name); lower != r.Command.Name {
			if _, ok := fspath.FindProgram(sys, c.Path, lower); ok {
				hint = fmt.Sprintf("case matters: it is %q", lower)
			}
		}
		return fmt.Sprintf("there is no program %q in PATH, so the rule matches nothing", r.Command.Name), hint
	case unreachable(c, r):
		return fmt.Sprintf("%s doesn't exist and the session can't create it, so the rule matches nothing", r.FS.Path), ""
	}
	return "", ""
}

// unreachable reports whether an fs rule's path doesn't exist, and the session can't create it.
func unreachable(c *policy.Compiled, r *policy.Rule) bool {
	if r.FS == nil || r.FS.Last != "" || !r.FS.Missing || r.FS.Optional {
		return false
	}
	return (c.Caps(r.FS.Path)|c.Caps(path.Dir(r.FS.Path)))&policy.Create == 0
}

// meantFor names a rule that matches nothing and was perhaps intended for a denied target.
func meantFor(c *policy.Compiled, v policy.Verdict, a *asked) string {
	for _, r := range c.Rules {
		switch {
		case r.Builtin():
		case v.Reason == policy.CommandNotListed && r.Command != nil && r.Command.Program == "" && likeProgram(r.Command.Name, a):
			return fmt.Sprintf("%s (%s) may be intended for it, but there is no program %q in PATH", r.ID, r.Position, r.Command.Name)
		case a.Resource == policy.FS && v.Reason != policy.CommandNotListed && r.FS != nil && r.FS.Missing && r.FS.Last == "" && likePath(r.FS.Path, a.target):
			return fmt.Sprintf("%s (%s) may be intended for it, but %s doesn't exist", r.ID, r.Position, r.FS.Path)
		}
	}
	return ""
}

// likeProgram reports whether a rule's name differs from the program's only by its folder, its case or its version.
func likeProgram(name string, a *asked) bool {
	wanted := []string{a.target, a.program}
	if len(a.Argv) > 0 {
		wanted = append(wanted, a.Argv[0])
	}
	all := policy.ProgramVersions(path.Base(name))
	for _, w := range wanted {
		short := policy.ProgramVersions(path.Base(w))
		if w != "" && strings.EqualFold(short[len(short)-1], all[len(all)-1]) {
			return true
		}
	}
	return false
}

// likePath reports whether a target is at a rule's path or beneath it but for the case of letters.
func likePath(rule, target string) bool {
	return len(target) >= len(rule) && !fspath.Within(target, rule) && strings.EqualFold(target[:len(rule)], rule) && (len(target) == len(rule) || target[len(rule)] == '/')
}
