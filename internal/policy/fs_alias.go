package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// Other is the rules of a layer that take something away from the path that rest makes beneath From, because of its other name;
// nil where there is none.
func (l *Layer) Other(a *fspath.Alias, rest string) (fs *Rule, by [NumGuards]*Rule) {
	i, depth := l.narrowing.findBeneath(a.To, rest)
	r := l.narrowing.Rule(i)
	if r != nil && a.Counts(&r.FS.Entry, depth) {
		fs = r
	}
	for k, t := range l.Guards() {
		if r != nil && r.FS.Lifts()[k] {
			continue
		}
		i, depth := t.findBeneath(a.To, rest)
		if r := t.Rule(i); r != nil && a.Counts(&r.FS.Entry, depth) && Guard(k).Taken(r) != 0 {
			by[k] = r
		}
	}
	return fs, by
}

// Narrows is the fs rule of a layer that a path's other name brings with it; nil when there is none.
func (l *Layer) Narrows(a *fspath.Alias, path string) *Rule {
	rest, ok := a.Rest(path)
	if !ok {
		return nil
	}
	r, _ := l.Other(a, rest)
	return r
}

// checkOthers decides by a path's other names: ok is false when one of them denies.
func (c *Compiled) checkOthers(path string, want Caps) (v Verdict, ok bool) {
	for i := range c.Aliases {
		a := &c.Aliases[i]
		rest, ok := a.Rest(path)
		if !ok {
			continue
		}
		for n, l := range c.Layers {
			fs, by := l.Other(a, rest)
			if fs != nil && want&^fs.FS.Caps != 0 {
				return Verdict{Reason: l.DenialReason(), Layer: int16(n), Rule: fs.Index}, false
			}
			for k, r := range by {
				if r != nil && want&GuardTakes[k] != 0 {
					return Verdict{Reason: Protected, Layer: int16(n), Rule: r.Index}, false
				}
			}
		}
	}
	return Verdict{}, true
}

// otherCaps is what is left of everything by a path's other names.
func (c *Compiled) otherCaps(path string) Caps {
	caps := AllCaps
	for i := range c.Aliases {
		a := &c.Aliases[i]
		rest, ok := a.Rest(path)
		if !ok {
			continue
		}
		for _, l := range c.Layers {
			fs, by := l.Other(a, rest)
			if fs != nil {
				caps &= fs.FS.Caps
			}
			for k, r := range by {
				if r != nil {
					caps &^= GuardTakes[k]
				}
			}
		}
	}
	return caps
}

// maxAliases bounds the work of a decision. Thousands of mounts can be of one file system, but few policies speak of more
// than some of them.
const maxAliases = 1024

// aliases finds the other names that make a difference. Where the table of mounts can't be read (by a session within one of
// landlock's), there are none: what is guarded already can't mount anything, and what restricts it knows its other names.
func (c *compiler) aliases(all []fspath.Mount, err error) {
	at := Place{File: c.src.Name}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return
	case errors.Is(err, fs.ErrNotExist):
		c.fail(at, errors.New("/proc isn't mounted here, and toolguard reads there what is mounted where"), "mount it: mount -t proc proc /proc")
		return
	case err != nil:
		c.fail(at, fmt.Errorf("which places have other names by bind mounts can't be told: %w", err), "")
		return
	}
	names := fspath.VisibleMounts(all).Aliases()
	if len(names) == 0 {
		return
	}
	if err := c.out.narrow(); err != nil {
		c.fail(at, err, "") // not reached: the tables they're parts of were made
		return
	}
	c.out.Aliases = slices.DeleteFunc(names, func(a fspath.Alias) bool {
		return !slices.ContainsFunc(c.out.Layers, func(l *Layer) bool { return l.speaksOf(&a) })
	})
	if n := len(c.out.Aliases); n > maxAliases {
		a := c.out.Aliases[0]
		c.fail(at, fmt.Errorf("what the rules name has %d other names by bind mounts (%s is %s, among others), and at most %d can be followed",
			n, a.From, a.To, maxAliases), "unmount some")
	}
}

// narrow makes the tables by which other names are decided.
func (c *Compiled) narrow() (err error) {
	for _, l := range c.Layers {
		if l.FS != nil && err == nil {
			l.narrowing, err = newFSTableOf(l.FS.rules, func(r *Rule) bool { return !r.Grants() })
		}
	}
	return err
}

// speaksOf says whether a rule of the layer may count somewhere beneath From because of the other name.
func (l *Layer) speaksOf(a *fspath.Alias) bool {
	if fs, _ := l.Other(a, ""); fs != nil {
		return true
	}
	for _, t := range l.Guards() {
		i, depth := t.findBeneath(a.To, "")
		if r := t.Rule(i); r != nil && a.Counts(&r.FS.Entry, depth) { // also where it's lifted: beneath, another rule may be the one that counts
			return true
		}
	}
	for _, t := range [1 + NumGuards]*FSTable{l.narrowing, l.Protect, l.Secrets} {
		if t.LiteralBeneath(a.To) != nil || t.partOf(a.To) != nil {
			return true
		}
		for _, r := range t.Patterns() {
			if (fspath.Within(r.FS.Path, a.To) || fspath.Within(a.To, r.FS.Path)) && !fspath.Within(a.From, r.FS.Path) {
				return true
			}
		}
	}
	return false
}
