package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/fspath"
)

// RulesByAlias returns the rules of a layer that restrict the path rest beneath a.From because of its alias beneath a.To; nil where there
// is none.
func (l *Layer) RulesByAlias(a *fspath.Alias, rest string) (fs *Rule, by [NumRestrictions]*Rule) {
	i, depth := l.narrowing.findBeneath(a.To, rest)
	r := l.narrowing.Rule(i)
	if r != nil && a.Counts(&r.FS.Entry, depth) {
		fs = r
	}
	for k, t := range l.Restrictions() {
		if r != nil && r.FS.Exempts()[k] {
			continue
		}
		i, depth := t.findBeneath(a.To, rest)
		if r := t.Rule(i); r != nil && a.Counts(&r.FS.Entry, depth) && Restriction(k).Removes(r) != 0 {
			by[k] = r
		}
	}
	return fs, by
}

// RuleByAlias returns the fs rule of a layer that restricts a path because of its alias; nil if there is none.
func (l *Layer) RuleByAlias(a *fspath.Alias, path string) *Rule {
	rest, ok := a.Rest(path)
	if !ok {
		return nil
	}
	r, _ := l.RulesByAlias(a, rest)
	return r
}

// checkAliases decides by a path's aliases: ok is false if one of them is denied.
func (c *Compiled) checkAliases(path string, want Caps) (v Verdict, ok bool) {
	for i := range c.Aliases {
		a := &c.Aliases[i]
		rest, ok := a.Rest(path)
		if !ok {
			continue
		}
		for n, l := range c.Layers {
			fs, by := l.RulesByAlias(a, rest)
			if fs != nil && want&^fs.FS.Caps != 0 {
				return Verdict{Reason: l.DenialReason(), Layer: int16(n), Rule: fs.Index}, false
			}
			for k, r := range by {
				if r != nil && want&RestrictedCaps[k] != 0 {
					return Verdict{Reason: Protected, Layer: int16(n), Rule: r.Index}, false
				}
			}
		}
	}
	return Verdict{}, true
}

// aliasCaps returns the capabilities that no alias of a path denies.
func (c *Compiled) aliasCaps(path string) Caps {
	caps := AllCaps
	for i := range c.Aliases {
		a := &c.Aliases[i]
		rest, ok := a.Rest(path)
		if !ok {
			continue
		}
		for _, l := range c.Layers {
			fs, by := l.RulesByAlias(a, rest)
			if fs != nil {
				caps &= fs.FS.Caps
			}
			for k, r := range by {
				if r != nil {
					caps &^= RestrictedCaps[k]
				}
			}
		}
	}
	return caps
}

// maxAliases bounds the work of a decision. One file system can have thousands of mounts, but few policies concern more than some of
// them.
const maxAliases = 1024

// aliases finds the aliases that make a difference. If the mount table can't be read (by a session nested in a Landlock session), there are
// none: a confined process can't mount anything, and the outer session knows the aliases.
func (c *compiler) aliases(all []fspath.Mount, err error) {
	at := Position{File: c.src.Name}
	switch {
	case errors.Is(err, fs.ErrPermission):
		return
	case errors.Is(err, fs.ErrNotExist):
		c.fail(at, errors.New("/proc isn't mounted here, and toolguard reads the mount table there"), "mount it: mount -t proc proc /proc")
		return
	case err != nil:
		c.fail(at, fmt.Errorf("can't determine which paths have aliases by bind mounts: %w", err), "")
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
		return !slices.ContainsFunc(c.out.Layers, func(l *Layer) bool { return l.concerns(&a) })
	})
	if n := len(c.out.Aliases); n > maxAliases {
		a := c.out.Aliases[0]
		c.fail(at, fmt.Errorf("the paths of the rules have %d aliases by bind mounts (for example, %s is %s), and at most %d are supported",
			n, a.From, a.To, maxAliases), "unmount some")
	}
}

// narrow builds the tables that decide on aliases.
func (c *Compiled) narrow() (err error) {
	for _, l := range c.Layers {
		if l.FS != nil && err == nil {
			l.narrowing, err = newFSTableOf(l.FS.rules, func(r *Rule) bool { return !r.Grants() })
		}
	}
	return err
}

// concerns reports whether a rule of the layer may apply somewhere beneath a.From because of the alias.
func (l *Layer) concerns(a *fspath.Alias) bool {
	if fs, _ := l.RulesByAlias(a, ""); fs != nil {
		return true
	}
	for _, t := range l.Restrictions() {
		i, depth := t.findBeneath(a.To, "")
		if r := t.Rule(i); r != nil && a.Counts(&r.FS.Entry, depth) { // also where a rule exempts it: beneath, another rule may decide
			return true
		}
	}
	for _, t := range [1 + NumRestrictions]*FSTable{l.narrowing, l.Protect, l.Secrets} {
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
