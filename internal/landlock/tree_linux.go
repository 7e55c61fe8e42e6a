package landlock

import (
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// restricts reports whether a layer denies access to a resource that none of its rules grants. toolguard's own layer denies only by rules, and
// is reported separately.
func restricts(l *policy.Layer, res policy.Resource) bool {
	return l.Authority != policy.Builtin && l.Defaults[res] == policy.Deny
}

const proc, ownProc = "/proc", "/proc/self"

// tree has one layer's literal rules by path. Of several at one path only the last counts.
type tree struct {
	layer   *policy.Layer
	aliases []fspath.Alias
	byPath  map[string]*policy.Rule
	order   []*policy.Rule // the rules that count, in rule order
	proc    *policy.Rule   // for which all of /proc may be read, see openProc; nil: none

	// The last result of rulesReaching and its path: most patterns of protect need the same one.
	lastReaching []*policy.Rule
	lastPath     string
}

func treeOf(l *policy.Layer, aliases []fspath.Alias, root bool) *tree {
	rules := slices.DeleteFunc(slices.Clone(l.FS.Literals()), func(r *policy.Rule) bool { return r.FS.Symlink }) // it can't be distinguished from its target
	t := &tree{layer: l, aliases: aliases, byPath: make(map[string]*policy.Rule, len(rules)+1)}
	for _, r := range rules {
		t.byPath[r.FS.Path] = r
	}
	for _, r := range rules {
		if t.byPath[r.FS.Path] == r {
			t.order = append(t.order, r)
		}
	}
	if !root {
		t.openProc()
	}
	return t
}

// parentRule returns the rule of the nearest folder above p that has one, or nil.
func (t *tree) parentRule(p string) *policy.Rule {
	for p != "/" {
		p = path.Dir(p)
		if r := t.byPath[p]; r != nil {
			return r
		}
	}
	return nil
}

// implied reports whether the parent rule grants all that r grants, so that a grant for r is redundant.
func (t *tree) implied(r *policy.Rule) bool {
	up := t.parentRule(r.FS.Path)
	return up != nil && r.FS.Caps&^up.FS.Caps == 0
}

// ruleAt returns the rule that decides at p.
func (t *tree) ruleAt(p string) *policy.Rule {
	if r := t.byPath[p]; r != nil {
		return r
	}
	return t.parentRule(p)
}

// rulesReaching returns the rules that decide at p or beneath it, under any alias. The caller mustn't change the slice.
func (t *tree) rulesReaching(p string) []*policy.Rule {
	if t.lastPath == p {
		return t.lastReaching
	}
	out := t.appendReaching(make([]*policy.Rule, 0, len(t.order)+1), p)
	for i := range t.aliases {
		a := &t.aliases[i]
		if other, ok := a.Other(p); ok {
			out = t.appendReaching(out, other)
		} else if beneath(a.From, p) {
			out = t.appendReaching(out, a.To)
		}
	}
	t.lastPath, t.lastReaching = p, out
	return out
}

// appendReaching adds the rules that decide at p or beneath it, under that name.
func (t *tree) appendReaching(out []*policy.Rule, p string) []*policy.Rule {
	if r := t.ruleAt(p); r != nil {
		out = append(out, r)
	}
	for _, r := range t.order {
		if r.FS.Path != p && beneath(r.FS.Path, p) {
			out = append(out, r)
		}
	}
	return out
}

// beneath reports whether p is dir or within it.
func beneath(p, dir string) bool {
	if dir == "/" || p == dir {
		return true
	}
	return strings.HasPrefix(p, dir) && p[len(dir)] == '/'
}

// capsOf returns the capabilities of a rule, or 0 for nil.
func capsOf(r *policy.Rule) policy.Caps {
	if r == nil {
		return 0
	}
	return r.FS.Caps
}

// isOwnProc reports whether a path is among the session's own /proc entries, which the language names by a keyword.
func isOwnProc(p string) bool { return beneath(p, ownProc) }

// openProc grants reading all of /proc if the built-in rules grant the session's own entries: Landlock can't name own entries, and programs
// fail without them. The kernel shows memory, environment and open files of another process only to processes that may trace it, and a
// process without capabilities may trace none outside its Landlock domain. If a rule denies anything in /proc, nothing is granted. Root is
// excluded, as it could read the kernel's secrets there, such as /proc/sys/net/ipv4/tcp_fastopen_key.
func (t *tree) openProc() {
	have := capsOf(t.ruleAt(proc))
	if have&policy.Read != 0 {
		return // the policy itself grants it
	}
	for _, r := range t.layer.FS.Rules() {
		switch {
		case r.FS.Caps&policy.Read == 0 && t.withinProc(r.FS.Path):
			t.proc = nil
			return
		case r.FS.Path == ownProc && r.FS.Last == "" && r.Builtin():
			t.proc = r
		}
	}
	if t.proc != nil {
		all := *t.proc
		all.FS = &policy.CompiledFS{Written: ownProc, Entry: fspath.Entry{Path: proc}, Caps: have | policy.Read, Secret: t.proc.FS.Secret, Dir: true, Optional: true}
		t.byPath[proc], t.order = &all, append(t.order, &all)
	}
}

// withinProc reports whether a path is beneath /proc under any of its aliases.
func (t *tree) withinProc(p string) bool {
	return beneath(p, proc) || slices.ContainsFunc(t.aliases, func(a fspath.Alias) bool {
		other, ok := a.Other(p)
		return ok && beneath(other, proc)
	})
}
