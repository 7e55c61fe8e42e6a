package calls

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// GrantedText is a policy with rules that were given. A program has one table, with the arguments of all its rules.
func GrantedText(rules []string) []byte {
	var all []string
	for _, rule := range rules {
		for _, table := range tables(rule) {
			if i := slices.IndexFunc(all, func(t string) bool { return isProgram(t) && header(t) == header(table) }); i >= 0 {
				all[i] = joined(all[i], table)
				continue
			}
			all = append(all, table)
		}
	}
	return []byte("version = 1\n" + strings.Join(all, "\n"))
}

// tables splits rules, as policies suggest them, into their tables. A text in one has no line break.
func tables(text string) (list []string) {
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "["):
			list = append(list, line)
		case len(list) > 0 && strings.TrimSpace(line) != "":
			list[len(list)-1] += line
		}
	}
	return list
}

func header(table string) string {
	first, _, _ := strings.Cut(table, "\n")
	return first
}

func isProgram(table string) bool { return strings.HasPrefix(table, "[access.commands.") }

// joined is the table of a program with the arguments of two. If they differ in more than arguments, the later one counts.
func joined(a, b string) string {
	head, first, ok := cutArguments(a)
	headB, second, okB := cutArguments(b)
	if !ok || !okB || head != headB || strings.HasPrefix(second, first) {
		return b
	}
	if strings.HasPrefix(first, second) {
		return a
	}
	return head + first + ", " + second + "]\n"
}

// cutArguments cuts the arguments out of a table that has nothing after them.
func cutArguments(table string) (before, arguments string, ok bool) {
	const key = "\nargs = ["
	before, arguments, ok = strings.Cut(table, key)
	arguments, hasEnd := strings.CutSuffix(arguments, "]\n")
	return before + key, arguments, ok && hasEnd && arguments != "" && !strings.Contains(arguments, "\n")
}

// added returns the tables that one text has and another one has not.
func added(before, after []byte) string {
	was, rule := tables(string(before)), ""
	for _, t := range tables(string(after)) {
		if !slices.Contains(was, t) {
			rule += t
		}
	}
	return rule
}

// CheckGiven returns an error if a rule in a file of given rules isn't about the path that it names any more. A session can put a symlink where a
// path of a rule was that it has asked for, and the rule would grant what that leads to.
func CheckGiven(c *policy.Compiled, file, home string) (err error) {
	eachPath(c, func(r *policy.Rule) {
		if r.Position.File == file && r.FS.Last == "" && absolute(r.FS.Written, c.Workspace, home) != r.FS.Path {
			err = fmt.Errorf("%q leads to %s by now: the person who gave the rule didn't see that", r.FS.Written, r.FS.Path)
		}
	})
	return err
}

// CheckSame returns an error if a rule of a policy leads elsewhere than it did when the session began: with each rule that is given or withdrawn,
// all paths are resolved again, and the session may have put symlinks there.
func CheckSame(before, now *policy.Compiled) error {
	type place struct {
		policy.Position
		written string
	}
	was := map[place]string{}
	eachPath(before, func(r *policy.Rule) { was[place{r.Position, r.FS.Written}] = r.FS.Path })
	var err error
	eachPath(now, func(r *policy.Rule) {
		if path, ok := was[place{r.Position, r.FS.Written}]; ok && path != r.FS.Path && err == nil {
			err = fmt.Errorf("%q, of %s, led to %s when the session began, and leads to %s by now", r.FS.Written, r.Position, path, r.FS.Path)
		}
	})
	return err
}

// eachPath calls f for each rule about a path that isn't toolguard's own.
func eachPath(c *policy.Compiled, f func(*policy.Rule)) {
	for _, l := range c.Layers {
		for _, r := range l.FS.Rules() {
			if !r.Builtin() {
				f(r)
			}
		}
	}
}

// absolute is the path that a rule names. The home may be a symlink.
func absolute(written, workspace, home string) string {
	if rest, ok := strings.CutPrefix(written, "~/"); ok {
		if real, err := filepath.EvalSymlinks(home); err == nil {
			home = real
		}
		return filepath.Join(home, rest)
	}
	if !filepath.IsAbs(written) {
		written = filepath.Join(workspace, written)
	}
	return filepath.Clean(written)
}
