package policy

import (
	"fmt"
	"path"
)

// own is what belongs to toolguard on every machine.
var own = []string{"/etc/toolguard", "/run/toolguard", "/var/lib/toolguard", "/sys/fs/bpf/toolguard"}

// builtin makes the first layer: everything is allowed but to change what toolguard's word rests on. A name that leads
// through symlinks is protected at every place it stands for: replacing a link would replace the policy.
func (c *compiler) builtin() {
	l := &Layer{Authority: Builtin, Mode: ProtectOn}
	l.Stance[FS] = Allow
	var rules []*Rule
	seen := map[string]bool{}
	protect := func(p string) {
		if seen[p] || !resolvable(p) {
			return
		}
		seen[p] = true
		fr := FSRule{Path: p, Caps: Read | Execute, Place: Place{File: "builtin:toolguard"}}
		rules = append(rules, c.add(Rule{
			ID: fmt.Sprintf("toolguard.%d", len(rules)+1), Place: fr.Place, Text: fsText(&fr),
			FS: &CompiledFS{Path: p, Written: p, Caps: fr.Caps},
		}))
	}
	for _, p := range own {
		protect(p)
		if got, err := c.res.resolve(p, true); err == nil {
			protect(got.path)
		}
	}
	for _, f := range c.src.Files {
		c.file(path.Clean(f), protect)
	}
	l.FS, _ = newFSTable(rules)
	c.out.Layers = append(c.out.Layers, l)
}

// file protects a policy file and every symlink that its name leads through.
func (c *compiler) file(f string, protect func(string)) {
	link := f
	for range maxLinks {
		got, err := c.res.resolve(link, false)
		if err != nil {
			c.fail(Place{File: f}, fmt.Errorf("the policy file can't be resolved: %w", err), "")
			return
		}
		protect(got.path)
		if got.kind != Symlink {
			c.out.Files = append(c.out.Files, got.path)
			return
		}
		link = c.res.lstat(got.path).link
		if !path.IsAbs(link) {
			link = path.Dir(got.path) + "/" + link
		}
	}
	c.fail(Place{File: f}, errLoop, "")
}

func (c *compiler) layerFS(l *Layer, src *SourceLayer, ids *ruleIDs) {
	if l.Stance[FS] != Undeclared {
		var rules []*Rule
		if l.Stance[FS] != Allow {
			rules = c.fsRules(src.Authority, c.runtime(src), "runtime", ids)
		}
		rules = append(rules, c.fsRules(src.Authority, src.FS, "fs", ids)...)
		l.FS = c.table(src, rules)
	}
	if l.Mode != ProtectOff && len(src.Protected) > 0 {
		l.Protect = c.table(src, c.fsRules(src.Authority, src.Protected, "protect", ids))
	}
}

func (c *compiler) table(src *SourceLayer, rules []*Rule) *FSTable {
	t, err := newFSTable(rules)
	if err != nil {
		c.fail(src.Place, err, "use fewer patterns, or paths")
	}
	return t
}

// runtime is the layer's runtime rules, with one for the session's private TMPDIR where there is one.
func (c *compiler) runtime(src *SourceLayer) []FSRule {
	if len(src.Runtime) == 0 || c.out.TmpDir == "" {
		return src.Runtime
	}
	for _, r := range src.Runtime {
		if r.Path == c.src.TmpDir {
			return src.Runtime
		}
	}
	tmp := FSRule{Path: c.src.TmpDir, Caps: Read | Write, Place: Place{File: "builtin:runtime"}}
	return append(src.Runtime[:len(src.Runtime):len(src.Runtime)], tmp)
}

func (c *compiler) fsRules(a Authority, src []FSRule, kind string, ids *ruleIDs) []*Rule {
	var out []*Rule
	for i := range src {
		s := &src[i]
		id := ids.next(kind, s.Place.File)
		fs, hint, err := c.fsRule(s)
		switch {
		case err != nil && s.Optional, err == nil && s.Optional && fs.Missing:
		case err != nil:
			c.fail(s.Place, fmt.Errorf("%s: %w", id, err), hint)
		default:
			out = append(out, c.add(Rule{ID: id, Authority: a, Resource: FS, Place: s.Place, Text: fsText(s), FS: fs}))
		}
	}
	return out
}

func (c *compiler) fsRule(s *FSRule) (fs *CompiledFS, hint string, err error) {
	fs = &CompiledFS{Caps: s.Caps, Unprotect: s.Unprotect, Optional: s.Optional, Written: s.Path}
	written := s.Path
	if s.Match != "" {
		p, err := parsePattern(s.Match)
		if err != nil {
			return nil, formsHint, err
		}
		fs.Written, fs.Last, fs.Names, written = s.Match, p.last, p.names, p.base
		if written == "" {
			written = "."
		}
	}
	got, err := c.roots.rule(c.res, written)
	if err != nil {
		return nil, "write the path of something that exists, or leave the rule out", err
	}
	fs.Path, fs.Missing, fs.Dir = got.path, got.missing, got.kind == Dir
	return fs, "", nil
}
