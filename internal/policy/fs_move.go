package policy

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Move is a rename of Old to New, or a hard link, both canonical, with what is known of them.
type Move struct {
	Old, New  string
	OldDir    bool
	NewExists bool
	NewDir    bool
	Exchange  bool // RENAME_EXCHANGE

	OldFile, NewFile fspath.FileID // what is there, where that is known
}

// CheckRename decides a rename: delete on the old name; create on the new one, or update if something is there; delete
// and update on both for an exchange; and nothing that moves may gain.
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

// CheckLink decides a hard link: read on the old name, create on the new one, and no gain.
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

// gains says whether what is at old could do more at new, and if so is the verdict that says why.
func (c *Compiled) gains(old, new string, dir bool) (Verdict, bool) {
	if !dir {
		return c.fileGains(old, new)
	}
	if c.otherNames(old) || c.otherNames(new) {
		return Verdict{Reason: NoGain, Layer: -1, Rule: NoMatch}, true
	}
	for i, l := range c.Layers {
		if r, ok := l.dirGains(old, new); ok {
			return Verdict{Reason: NoGain, Layer: int16(i), Rule: r}, true
		}
	}
	return Verdict{}, false
}

// otherNames says whether a directory is known by another name, or something beneath it is: rules may hold to either.
func (c *Compiled) otherNames(path string) bool {
	return slices.ContainsFunc(c.Aliases, func(a fspath.Alias) bool {
		_, ok := a.Rest(path)
		return ok || fspath.Within(a.From, path)
	})
}

// fileGains compares what all layers together allow. The rule that it names is the one that had withheld something.
func (c *Compiled) fileGains(old, new string) (Verdict, bool) {
	more := c.Caps(new) &^ c.Caps(old)
	if more == 0 {
		return Verdict{}, false
	}
	v := c.CheckFS(old, more)
	return Verdict{Reason: NoGain, Layer: v.Layer, Rule: v.Rule}, true
}

// dirGains compares what one layer alone allows on a directory and on whatever could come to be beneath it.
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
	from, to := l.cover(old), l.cover(new)
	if to&^from != 0 || from&brings&^to != 0 {
		return l.withholds(old), true
	}
	return l.basesDiffer(old, new)
}

// lifted stands beside a rule's capabilities where the rule lifts protect, or secrets, and uncovered where nothing of that kind covers
// the directory: those are something to gain, too.
var (
	lifted    = [NumGuards]Caps{GuardProtect: 1 << 7, GuardSecrets: 1 << 9}
	uncovered = [NumGuards]Caps{GuardProtect: 1 << 6, GuardSecrets: 1 << 8}
)

// brings is what a directory mustn't lose by moving: a name that is denied, or protected, is not to be made where it's
// allowed and then moved in with the directory around it.
var brings = Create | lifted[GuardProtect] | uncovered[GuardProtect]

// gives is what a rule gives in this layer.
func (l *Layer) gives(r *Rule) Caps {
	caps, lifts := r.FS.Caps, r.FS.Lifts()
	for k, t := range l.Guards() {
		if lifts[k] && t != nil {
			caps |= lifted[k]
		}
	}
	return caps
}

// cover is what a path gets in this layer, and so what is beneath it gets where nothing matches deeper.
func (l *Layer) cover(path string) Caps {
	caps := AllCaps
	if r := l.FS.Deciding(path); r != nil {
		caps = l.gives(r)
	} else if l.Stance[FS] == Deny {
		caps = 0
	}
	for k, t := range l.Guards() {
		if Guard(k).Taken(t.Deciding(path)) == 0 {
			caps |= uncovered[k]
		}
	}
	return caps
}

// withholds is the rule that decides a path in this layer, for a verdict.
func (l *Layer) withholds(path string) int32 {
	for k, t := range l.Guards() {
		if r := t.Deciding(path); Guard(k).Taken(r) != 0 {
			return r.Index
		}
	}
	if l.FS == nil {
		return NoMatch
	}
	r, _ := l.FS.find(path)
	return r
}

// basesDiffer is a pattern that could hit beneath just one of two directories. With none, and no literal rule beneath either,
// whatever lies beneath is hit by the same patterns at both names.
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

// Moving says for a rename of what really is there: kinds are looked up, and symlinks in the last components aren't
// followed.
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
	if m.OldFile, err = c.FileAt(sys, m.Old); err == nil {
		m.NewFile, err = c.FileAt(sys, m.New)
	}
	return m, err
}
