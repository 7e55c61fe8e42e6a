package access

import (
	"maps"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// paths are the rules of all authorities about paths. Each entry has what all of them together grant at its path: of two rules that match a
// target, one is then enough to know.
func paths(c *policy.Compiled) (list []FS) {
	all := map[string]bool{"/": true, c.Workspace: true}
	for _, l := range c.Layers {
		for _, r := range l.FS.Literals() {
			all[r.FS.Path] = all[r.FS.Path] || !r.FS.Symlink // a path that is resolved has no symlink
		}
	}
	for _, p := range slices.Sorted(maps.Keys(all)) {
		if all[p] {
			entry := FS{Path: relative(c, p), Caps: capsOf(c.Caps(p))}
			entry.Unprotect, entry.Secret = exempt(c, p, policy.RestrictProtect), exempt(c, p, policy.RestrictSecrets)
			list = append(list, entry)
		}
	}
	return list
}

// exempt reports whether a restriction doesn't apply at a path and beneath, for no authority. Where several authorities have rules, it may apply where
// a pattern matches.
func exempt(c *policy.Compiled, path string, k policy.Restriction) (any bool) {
	for _, l := range c.Layers {
		if len(l.FS.Patterns()) > 0 && several(c) {
			return false
		}
		if l.Restrictions()[k] == nil {
			continue
		}
		r := l.FS.Deciding(path)
		if l.Defaults[policy.FS] == policy.Undeclared || r == nil || !r.FS.Exempts()[k] {
			return false
		}
		any = true
	}
	return any
}

// several reports whether more than one authority has rules about files, besides toolguard's own.
func several(c *policy.Compiled) bool {
	n := 0
	for _, l := range c.Layers {
		if l.Authority != policy.Builtin && (l.Defaults[policy.FS] != policy.Undeclared || l.Protect != nil || l.Secrets != nil) {
			n++
		}
	}
	return n > 1
}

// relative is a path as the reference has it: within the workspace it's relative.
func relative(c *policy.Compiled, path string) string {
	switch {
	case path == c.Workspace:
		return "."
	case c.Workspace != "/" && fspath.Within(path, c.Workspace):
		return fspath.Beneath(path, c.Workspace)[1:]
	}
	return path
}

func capsOf(c policy.Caps) Caps {
	return Caps{
		Read: c&policy.Read != 0, Create: c&policy.Create != 0, Update: c&policy.Update != 0, Delete: c&policy.Delete != 0,
		Execute: c&policy.Execute != 0,
	}
}

// names are those of capabilities, each by itself.
func names(c policy.Caps) (list []string) {
	list = []string{}
	for _, one := range []policy.Caps{policy.Read, policy.Create, policy.Update, policy.Delete, policy.Execute} {
		if c&one != 0 {
			list = append(list, one.String())
		}
	}
	return list
}

// patterns are the rules about names at any depth.
func patterns(c *policy.Compiled) Patterns {
	out := Patterns{FS: []Pattern{}, Removed: []Removal{}}
	for _, l := range c.Layers {
		out.addFS(c, l, several(c))
		for k, t := range l.Restrictions() {
			if len(t.Rules()) > 0 {
				out.addRemoval(c, policy.Restriction(k), t)
			}
		}
	}
	return out
}

// addFS adds a layer's own patterns. Where several authorities have rules, what another one grants at a match isn't known before the target is:
// there, a pattern only removes, and what it grants in addition is left out.
func (p *Patterns) addFS(c *policy.Compiled, l *policy.Layer, several bool) {
	var removal Removal
	for _, r := range l.FS.Patterns() {
		base, match := relative(c, r.FS.Path), append([]string{r.FS.Last}, r.FS.Names...)
		if several {
			removal.Rules = append(removal.Rules, RemovalEntry{base, match, names(policy.AllCaps &^ r.FS.Caps)})
			continue
		}
		p.FS = append(p.FS, Pattern{Base: base, Match: match, Caps: capsOf(r.FS.Caps), Unprotect: r.FS.Unprotect, Secret: r.FS.Secret})
	}
	if len(removal.Rules) > 0 {
		p.Removed = append(p.Removed, removal)
	}
}

// addRemoval adds what protect or secrets removes.
func (p *Patterns) addRemoval(c *policy.Compiled, k policy.Restriction, t *policy.FSTable) {
	removal := Removal{Unless: [...]string{policy.RestrictProtect: "unprotect", policy.RestrictSecrets: "secret"}[k]}
	for _, r := range t.Rules() {
		match := []string{}
		if r.FS.Last != "" {
			match = append([]string{r.FS.Last}, r.FS.Names...)
		}
		removal.Rules = append(removal.Rules, RemovalEntry{relative(c, r.FS.Path), match, names(k.Removes(r))})
	}
	if !slices.ContainsFunc(p.Removed, removal.same) {
		p.Removed = append(p.Removed, removal)
	}
}

// same reports whether both remove the same.
func (r *Removal) same(other Removal) bool {
	return r.Unless == other.Unless && slices.EqualFunc(r.Rules, other.Rules, func(a, b RemovalEntry) bool {
		return a.Base == b.Base && slices.Equal(a.Match, b.Match) && slices.Equal(a.Removes, b.Removes)
	})
}
