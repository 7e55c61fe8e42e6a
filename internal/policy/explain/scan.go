package explain

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Scan finds files whose hard links bypass a rule: one of their names has fewer capabilities than another. Some backends enforce a rule that names such a file under all of them. linked yields every file with several hard links beneath a folder; it's a parameter because it's slow.
func Scan(c *policy.Compiled, linked func(root string) ([]fspath.LinkedFile, error)) ([]Warning, error) {
	names := map[fspath.FileID][]string{}
	for _, root := range scanned(c) {
		found, err := linked(root)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			names[f.File] = append(names[f.File], f.Path)
		}
	}
	worst := map[*policy.Rule][]gap{}
	for _, paths := range names {
		if g, r := gapOf(c, paths); r != nil {
			worst[r] = append(worst[r], g)
		}
	}
	var out []Warning
	for r, gaps := range worst {
		g := slices.MinFunc(gaps, func(a, b gap) int { return cmp.Compare(a.name, b.name) })
		msg := fmt.Sprintf("%s: %s is also %s, by a hard link, which grants %s more", r.ID, g.name, g.other, g.more)
		if n := len(gaps) - 1; n > 0 {
			msg += fmt.Sprintf(" (and %s like it)", counted(n, "file"))
		}
		out = append(out, Warning{Position: r.Position, Code: "hard-link", Msg: msg, Hint: "replace one of the names by a copy, or name the file itself in a rule"})
	}
	slices.SortFunc(out, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Position.File, b.Position.File), cmp.Compare(a.Position.Line, b.Position.Line), cmp.Compare(a.Msg, b.Msg))
	})
	return out, nil
}

// gap is a file that has more capabilities under another name than a rule grants under one.
type gap struct {
	name, other string
	more        policy.Caps
}

// gapOf returns the capabilities that one of a file's names has and another lacks; the rule is nil where there are none.
func gapOf(c *policy.Compiled, paths []string) (g gap, r *policy.Rule) {
	slices.Sort(paths)
	for _, name := range paths {
		for _, other := range paths {
			more := c.Caps(other) &^ c.Caps(name)
			if more == 0 {
				continue
			}
			if v := c.CheckFS(name, more); v.Rule >= 0 {
				return gap{name, other, more}, c.Rules[v.Rule]
			}
		}
	}
	return gap{}, nil
}

// scanned returns the policy files, and the folders that rules name, none beneath another one.
func scanned(c *policy.Compiled) []string {
	roots := slices.Clone(c.Files)
	for _, l := range c.Layers {
		if l.Defaults[policy.FS] == policy.Allow && l.Authority != policy.Builtin {
			roots = append(roots, "/")
		}
		for _, r := range l.FS.Rules() {
			if r.Authority != policy.Builtin && !r.Grants() {
				roots = append(roots, r.FS.Path)
			}
		}
	}
	slices.Sort(roots)
	var out []string
	for _, p := range roots {
		if !slices.ContainsFunc(out, func(above string) bool { return fspath.Within(p, above) }) {
			out = append(out, p)
		}
	}
	return out
}
