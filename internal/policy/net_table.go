package policy

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

var (
	opaqueSchemes = []string{"", "ssh", "git"} // their content can't be decided on; "" is a raw connection
	tlsSchemes    = []string{"https", "wss"}
)

// NetTable matches network targets against the net rules of one layer: exact names and suffixes by map, ranges in turn.
type NetTable struct {
	rules    []*Rule
	names    map[string][]*Rule
	suffixes map[string][]*Rule
	ranges   []*Rule // and rules for every address
	prefixes map[netip.Prefix][]*Rule
	ReadsTLS bool // where a rule needs it
}

func newNetTable(rules []*Rule) *NetTable {
	t := &NetTable{rules: rules, names: map[string][]*Rule{}, suffixes: map[string][]*Rule{}, prefixes: map[netip.Prefix][]*Rule{}}
	for _, r := range rules {
		for _, p := range r.Net.Prefixes() {
			t.prefixes[p] = append(t.prefixes[p], r)
		}
		switch {
		case r.Net.Name != "":
			t.names[r.Net.Name] = append(t.names[r.Net.Name], r)
		case r.Net.Suffix != "":
			t.suffixes[r.Net.Suffix] = append(t.suffixes[r.Net.Suffix], r)
		default:
			t.ranges = append(t.ranges, r)
		}
	}
	return t
}

// Rules returns every rule in order; the caller must not change it. A nil table has none.
func (t *NetTable) Rules() []*Rule {
	if t == nil {
		return nil
	}
	return t.rules
}

// about calls f for every rule that is about a target's host, in no order.
type about func(f func(*Rule))

// Find returns the rule that decides a target, nil when none matches.
func (t *NetTable) Find(target *netname.Target) *Rule {
	return t.deciding(target, t.about(target))
}

func (t *NetTable) about(target *netname.Target) about {
	return func(f func(*Rule)) { t.EachHost(target, f) }
}

// best returns the most specific rule that matches a target, nil when none does.
func (rules about) best(target *netname.Target) (best *Rule) {
	rules(func(r *Rule) {
		if r.Net.Matches(target) && (best == nil || CompareNet(r, best) > 0) {
			best = r
		}
	})
	return best
}

// deciding returns the rule that decides a target, of the rules for its host: the best for it, or for targets that look the same.
func (t *NetTable) deciding(target *netname.Target, rules about) *Rule {
	like := *target
	switch schemes := t.alike(target, rules); {
	case schemes == nil:
		return rules.best(target)
	case schemes[0] == tlsSchemes[0]:
		return rules.unread(&like)
	}
	return rules.opaque(&like)
}

// opaque returns the rule for content that can't be read: of the schemes that look the same one that denies, else one that grants.
func (rules about) opaque(like *netname.Target) (out *Rule) {
	out = rules.best(like)
	for _, like.Scheme = range opaqueSchemes {
		if r := rules.best(like); r != nil && (out == nil || out.Net.Allow && !r.Net.Allow) {
			out = r
		}
	}
	return out
}

// unread returns the rule for TLS that isn't intercepted: a rule for https decides on wss too, then a rule for wss on https, and only
// then a rule that names neither.
func (rules about) unread(like *netname.Target) (out *Rule) {
	for _, like.Scheme = range tlsSchemes {
		r := rules.best(like)
		if r != nil && r.Net.Scheme != "" {
			return r
		}
		out = cmp.Or(out, r)
	}
	return out
}

// alike returns the schemes whose connections look like those of a target's, by the rules for its host:
// interception for other hosts makes no difference to it.
func (t *NetTable) alike(target *netname.Target, rules about) []string {
	switch {
	case target.Listen || target.Protocol != "tcp":
	case slices.Contains(opaqueSchemes, target.Scheme):
		return opaqueSchemes
	case slices.Contains(tlsSchemes, target.Scheme) && !(t != nil && t.ReadsTLS && rules.needReading()):
		return tlsSchemes
	}
	return nil
}

// LooksLike returns the schemes whose connections look like those of a target's, as far as the rules of the table go.
func (t *NetTable) LooksLike(target *netname.Target) []string {
	return t.alike(target, t.about(target))
}

// needReading reports whether a rule depends on the content of TLS.
func (rules about) needReading() (needs bool) {
	rules(func(r *Rule) { needs = needs || r.Net.needsReading() })
	return needs
}

// Each calls f for every rule that matches, in no order.
func (t *NetTable) Each(target *netname.Target, f func(*Rule)) {
	t.EachHost(target, func(r *Rule) {
		if r.Net.Matches(target) {
			f(r)
		}
	})
}

// EachHost calls f for every rule whose host matches.
func (t *NetTable) EachHost(target *netname.Target, f func(*Rule)) {
	all := func(l []*Rule) {
		for _, r := range l {
			f(r)
		}
	}
	if addr := target.Dest(); addr.IsValid() {
		if slices.Contains(netname.Loopback[:], addr) {
			all(t.names["localhost"])
		}
		inside := netname.EmbeddedIPv4(addr)
		for _, r := range t.ranges {
			if !r.Net.Prefix.IsValid() || r.Net.Prefix.Contains(addr) || r.Net.matchesCarried() && r.Net.Prefix.Contains(inside) {
				f(r)
			}
		}
		return
	}
	all(t.names[target.Host])
	for host := target.Host; ; {
		_, parent, ok := strings.Cut(host, ".")
		if !ok {
			return
		}
		all(t.suffixes[parent])
		host = parent
	}
}

// Matches reports whether a rule whose host matches applies to the target. A rule that denies addresses and names nothing else applies to
// every use of them.
//
// The content of a connection of no known scheme can't be read, so a rule that grants a part of it (a scheme, a path, a method) doesn't
// match; a rule that denies a part does, because the connection might contain it.
func (n *CompiledNet) Matches(t *netname.Target) bool {
	switch every := n.EveryPort(); {
	case n.Listen != t.Listen, n.Proto != t.Protocol && (n.Proto != "" || !every):
		return false
	case every, n.OwnServers():
		return true
	}
	if t.Scheme == "" {
		return n.matchesRaw(t)
	}
	if n.Scheme != "" && n.Scheme != t.Scheme {
		return false
	}
	port := uint16(n.Port)
	if port == 0 {
		port = netname.DefaultPort(t.Scheme)
	}
	return port == t.Port && n.matchesPath(t) && n.matchesMethod(t)
}

func (n *CompiledNet) matchesRaw(t *netname.Target) bool {
	port := uint16(n.Port)
	if n.Scheme != "" || n.DependsOnContent() {
		if n.Allow {
			return false
		}
		if port == 0 {
			port = netname.DefaultPort(n.Scheme) // 0 when the rule has no scheme either
		}
	}
	return port != 0 && port == t.Port
}

func (n *CompiledNet) matchesPath(t *netname.Target) bool {
	if len(n.Path) == 0 {
		return true
	}
	if t.Odd {
		return !n.Allow
	}
	return len(t.Path) >= len(n.Path) && slices.Equal(t.Path[:len(n.Path)], n.Path)
}

func (n *CompiledNet) matchesMethod(t *netname.Target) bool {
	if n.Methods == nil {
		return true
	}
	if t.Method == "" {
		return n.Allow // the connection itself: some method is granted, not every one denied
	}
	return slices.Contains(n.Methods, t.Method)
}

// AllowsWith reports whether one more rule, at the end, would allow a target.
func (t *NetTable) AllowsWith(target *netname.Target, r *NetRule, intercept bool) bool {
	n, _, err := compileNet(r, intercept)
	if err != nil {
		return false
	}
	last := &Rule{Index: 1 << 30, Net: n}
	got := t.deciding(target, func(f func(*Rule)) {
		if t != nil {
			t.EachHost(target, f)
		}
		f(last)
	})
	return got != nil && got.Net.Allow
}
