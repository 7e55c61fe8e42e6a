package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
)

func spanText(n uint64) string { return time.Duration(n).String() }

// access compares the settings of whole authorities, and which authorities have a policy at all: each narrows.
func (d *differ) access() {
	for a := policy.Host; a < policy.NumAuthorities; a++ {
		x, y := layerOf(d.a, a), layerOf(d.b, a)
		switch {
		case x == nil && y == nil:
			continue
		case x == nil || y == nil:
			d.out = append(d.out, Change{Resource: "access", Target: a.String(), Old: present(x != nil), New: present(y != nil), Widened: y == nil, Narrowed: x == nil})
			continue
		}
		d.flag(a, "namespaces", x.Namespaces, y.Namespaces)
		d.set(a, "capabilities", x.Capabilities, y.Capabilities, true)
		d.set(a, "syscalls allow", x.Syscalls.Allow, y.Syscalls.Allow, true)
		d.set(a, "syscalls deny", x.Syscalls.Deny, y.Syscalls.Deny, false)
		d.flag(a, "syscalls beyond the strict profile", x.Syscalls.Profile != "strict", y.Syscalls.Profile != "strict")
		d.flag(a, "unprotected files", x.Mode == policy.ProtectOff, y.Mode == policy.ProtectOff)
		d.flag(a, "readable secrets", x.SecretsMode == policy.ProtectOff, y.SecretsMode == policy.ProtectOff)
		d.set(a, "allow_degraded", degradedIDs(x), degradedIDs(y), true)
	}
}

func present(is bool) string {
	if is {
		return "has a policy"
	}
	return "has none"
}

func layerOf(c *policy.Compiled, a policy.Authority) *policy.Layer {
	for _, l := range c.Layers {
		if l.Authority == a {
			return l
		}
	}
	return nil
}

func degradedIDs(l *policy.Layer) []string {
	var out []string
	for _, d := range l.Degraded {
		out = append(out, d.ID)
	}
	return out
}

// flag reports something that allows more when it's on.
func (d *differ) flag(a policy.Authority, what string, old, new bool) {
	if old != new {
		d.out = append(d.out, Change{Resource: "access", Target: a.String() + ": " + what, Old: fmt.Sprint(old), New: fmt.Sprint(new), Widened: new, Narrowed: old})
	}
}

// set reports a list whose elements allow more, or less.
func (d *differ) set(a policy.Authority, what string, old, new []string, allows bool) {
	more := slices.ContainsFunc(new, func(s string) bool { return !slices.Contains(old, s) })
	fewer := slices.ContainsFunc(old, func(s string) bool { return !slices.Contains(new, s) })
	if !more && !fewer {
		return
	}
	text := func(l []string) string { return strings.Join(slices.Sorted(slices.Values(l)), ", ") }
	ch := Change{Resource: "access", Target: a.String() + ": " + what, Old: text(old), New: text(new), Widened: more, Narrowed: fewer}
	if !allows {
		ch.Widened, ch.Narrowed = fewer, more
	}
	d.out = append(d.out, ch)
}
