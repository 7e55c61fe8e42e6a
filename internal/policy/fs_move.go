package policy

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Move is a rename of Old to New, or a hard link, both canonical, with their known properties.
type Move struct {
	Old, New  string
	OldDir    bool
	NewExists bool
	NewDir    bool
	Exchange  bool // RENAME_EXCHANGE

	OldFile, NewFile fspath.FileID // of the existing files; zero where unknown
}

// CheckRename decides a rename: delete on the old name; create on the new one, or update if something is there; delete
// and update on both for an exchange; and nothing that moves may gain a capability.
func (c *Compiled) CheckRename(m Move) Verdict {
	old, new := Delete, Create
	switch {
	case m.Exchange:
		old, new = Delete|Update, Delete|Update
	case m.NewExists:
		new = Update
	}
	if v := c.CheckFile(m.Old, m.OldFile, old); !v.Allow {
		return v
	}
	v := c.CheckFile(m.New, m.NewFile, new)
	if !v.Allow || m.Old == m.New {
		return v
	}
	if g, ok := c.gains(m.Old, m.New, m.OldDir); ok {
		return g
	}
	if m.Exchange {
		if g, ok := c.gains(m.New, m.Old, m.NewDir); ok {
			return g
		}
	}
	return v
}

// CheckLink decides a hard link: read on the old name, create on the new one, and no gained capability.
func (c *Compiled) CheckLink(m Move) Verdict {
	if v := c.CheckFile(m.Old, m.OldFile, Read); !v.Allow {
		return v
	}
	v := c.CheckFS(m.New, Create)
	if !v.Allow {
		return v
	}
	if g, ok := c.gains(m.Old, m.New, false); ok {
		return g
	}
	return v
}

// gains reports whether the file or directory at old would have more capabilities at new, with the verdict that explains it.
func (c *Compiled) gains(old, new string, dir bool) (Verdict, bool) {
	if !dir {
		return c.fileGains(old, new)
	}
	if c.hasAliases(old) || c.hasAliases(new) {
		return Verdict{Reason: NoGain, Layer: -1, Rule: NoMatch}, true
	}
	for i, l := range c.Layers {
		if r, ok := l.dirGains(old, new); ok {
			return Verdict{Reason: NoGain, Layer: int16(i), Rule: r}, true
		}
	}
	return Verdict{}, false
}

// hasAliases reports whether a directory, or something beneath it, has an alias: rules may concern either path.
func (c *Compiled) hasAliases(path string) bool {
	return slices.ContainsFunc(c.Aliases, func(a fspath.Alias) bool {
		_, ok := a.Rest(path)
		return ok || fspath.Within(a.From, path)
	})
}

// fileGains compares the capabilities that all layers together allow. It names the rule that denied some of them at old.
func (c *Compiled) fileGains(old, new string) (Verdict, bool) {
	more := c.Caps(new) &^ c.Caps(old)
	if more == 0 {
		return Verdict{}, false
	}
	v := c.CheckFS(old, more)
	return Verdict{Reason: NoGain, Layer: v.Layer, Rule: v.Rule}, true
}

// dirGains compares what one layer alone allows on a directory and on everything that could be created beneath it.
func (l *Layer) dirGains(old, new string) (rule int32, gains bool) {
	for _, t := range l.tables() {
		for _, p := range [2]string{old, new} {
			if r := t.LiteralBeneath(p); r != nil {
				return r.Index, true
			}
			if r := t.baseBeneath(p); r != nil {
				return r.Index, true
			}
			if r := t.partOf(p); r != nil {
				return r.Index, true
			}
		}
	}
	from, to := l.pathCaps(old), l.pathCaps(new)
	if to&^from != 0 || from&brings&^to != 0 {
		return l.withholds(old), true
	}
	return l.basesDiffer(old, new)
}

// lifted is added to a rule's capabilities if the rule exempts from protect or secrets, and uncovered if no rule of that kind matches the
// directory: a directory can gain these, too.
var (
	lifted    = [NumRestrictions]Caps{RestrictProtect: 1 << 7, RestrictSecrets: 1 << 9}
	uncovered = [NumRestrictions]Caps{RestrictProtect: 1 << 6, RestrictSecrets: 1 << 8}
)

// brings are the capabilities that a directory mustn't lose by moving: else a denied or protected name could be created where it's
// allowed, and then moved in with its directory.
var brings = Create | lifted[RestrictProtect] | uncovered[RestrictProtect]

// ruleCaps returns a rule's capabilities and exemptions in this layer.
func (l *Layer) ruleCaps(r *Rule) Caps {
	caps, lifts := r.FS.Caps, r.FS.Exempts()
	for k, t := range l.Restrictions() {
		if lifts[k] && t != nil {
			caps |= lifted[k]
		}
	}
	return caps
}

// pathCaps returns the capabilities and exemptions of a path in this layer, which everything beneath it shares unless a deeper rule matches.
func (l *Layer) pathCaps(path string) Caps {
	caps := AllCaps
	if r := l.FS.Deciding(path); r != nil {
		caps = l.ruleCaps(r)
	} else if l.Defaults[FS] == Deny {
		caps = 0
	}
	for k, t := range l.Restrictions() {
		if Restriction(k).Removes(t.Deciding(path)) == 0 {
			caps |= uncovered[k]
		}
	}
	return caps
}

// withholds returns the rule that decides a path in this layer, for a verdict.
func (l *Layer) withholds(path string) int32 {
	for k, t := range l.Restrictions() {
		if r := t.Deciding(path); Restriction(k).Removes(r) != 0 {
			return r.Index
		}
	}
	if l.FS == nil {
		return NoMatch
	}
	r, _ := l.FS.find(path)
	return r
}

// basesDiffer returns a pattern that could match beneath just one of two directories. Without one, and without a literal rule beneath
// either, the same patterns match beneath both.
func (l *Layer) basesDiffer(old, new string) (rule int32, differ bool) {
	for _, t := range l.tables() {
		for _, r := range t.Patterns() {
			if fspath.Within(old, r.FS.Path) != fspath.Within(new, r.FS.Path) {
				return r.Index, true
			}
		}
	}
	return NoMatch, false
}

// Moving looks up both names of a rename. It doesn't follow symlinks in the last components.
func (c *Compiled) Moving(sys fspath.FileSystem, old, new string, exchange bool) (Move, error) {
	m := Move{Exchange: exchange}
	var err error
	if m.Old, err = c.ResolveTarget(sys, old, false); err != nil {
		return m, err
	}
	if m.New, err = c.ResolveTarget(sys, new, false); err != nil {
		return m, err
	}
	kind, err := sys.Lstat(m.Old)
	m.OldDir = err == nil && kind == fspath.Dir
	kind, err = sys.Lstat(m.New)
	m.NewExists, m.NewDir = err == nil, err == nil && kind == fspath.Dir
	if m.OldFile, err = c.LinkedFile(sys, m.Old); err == nil {
		m.NewFile, err = c.LinkedFile(sys, m.New)
	}
	return m, err
}
