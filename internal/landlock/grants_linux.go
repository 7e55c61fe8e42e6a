package landlock

import (
	"path"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// restricts reports whether a layer denies what none of its rules for a resource grants. toolguard's own layer denies by
// rules alone, and is reported apart.
func restricts(l *policy.Layer, res policy.Resource) bool {
	return l.Authority != policy.Builtin && l.Defaults[res] == policy.Deny
}

const proc, ownProc = "/proc", "/proc/self"

// tree is one layer's literal rules by path: of several at one path only the last counts.
type tree struct {
	layer   *policy.Layer
	aliases []fspath.Alias
	at      map[string]*policy.Rule
	order   []*policy.Rule // those that count, in rule order
	proc    *policy.Rule   // for which all of /proc may be read, see openProc; nil: none

	// What reaching last found, and for which path: most patterns of protect ask about the same one.
	reached []*policy.Rule
	from    string
}

func treeOf(l *policy.Layer, aliases []fspath.Alias, root bool) *tree {
	rules := slices.DeleteFunc(slices.Clone(l.FS.Literals()), func(r *policy.Rule) bool { return r.FS.Symlink }) // it can't be distinguished from its target
	t := &tree{layer: l, aliases: aliases, at: make(map[string]*policy.Rule, len(rules)+1)}
	for _, r := range rules {
		t.at[r.FS.Path] = r
	}
	for _, r := range rules {
		if t.at[r.FS.Path] == r {
			t.order = append(t.order, r)
		}
	}
	if !root {
		t.openProc()
	}
	return t
}

// around is the rule that holds just above p: that of the nearest folder that has one. nil when nothing is granted there.
func (t *tree) around(p string) *policy.Rule {
	for p != "/" {
		p = path.Dir(p)
		if r := t.at[p]; r != nil {
			return r
		}
	}
	return nil
}

// implied says that the rule of the folder around a rule's path gives all that it gives: a grant of its own would only
// cost time.
func (t *tree) implied(r *policy.Rule) bool {
	up := t.around(r.FS.Path)
	return up != nil && r.FS.Caps&^up.FS.Caps == 0
}

// deciding is the rule that holds at p.
func (t *tree) deciding(p string) *policy.Rule {
	if r := t.at[p]; r != nil {
		return r
	}
	return t.around(p)
}

// reaching are the rules that hold at p or somewhere beneath it, under any name. The caller mustn't change the slice.
func (t *tree) reaching(p string) []*policy.Rule {
	if t.from == p {
		return t.reached
	}
	out := t.named(make([]*policy.Rule, 0, len(t.order)+1), p)
	for i := range t.aliases {
		a := &t.aliases[i]
		if other, ok := a.Other(p); ok {
			out = t.named(out, other)
		} else if beneath(a.From, p) {
			out = t.named(out, a.To)
		}
	}
	t.from, t.reached = p, out
	return out
}

// named adds the rules that hold at p or somewhere beneath it, by that name.
func (t *tree) named(out []*policy.Rule, p string) []*policy.Rule {
	if r := t.deciding(p); r != nil {
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

// capsOf is what a rule that may be nil grants.
func capsOf(r *policy.Rule) policy.Caps {
	if r == nil {
		return 0
	}
	return r.FS.Caps
}

// own reports whether a path is among the session's own /proc entries: a keyword of the language, no path of the machine.
func own(p string) bool { return beneath(p, ownProc) }

// openProc lets all of /proc be read where the built-in rules grant the session's own entries: Landlock has no word for "own",
// and programs die without them. What others' entries show of their memory, environment and open files the kernel keeps from
// processes that may not trace them, and one without capabilities may trace none outside its Landlock domain. What a rule takes
// away there stays away. It isn't for root, who could read the kernel's secrets there, such as /proc/sys/net/ipv4/tcp_fastopen_key.
func (t *tree) openProc() {
	have := capsOf(t.deciding(proc))
	if have&policy.Read != 0 {
		return // the policy itself says so
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
		t.at[proc], t.order = &all, append(t.order, &all)
	}
}

// withinProc reports whether a path is beneath /proc under any of its names.
func (t *tree) withinProc(p string) bool {
	return beneath(p, proc) || slices.ContainsFunc(t.aliases, func(a fspath.Alias) bool {
		other, ok := a.Other(p)
		return ok && beneath(other, proc)
	})
}
