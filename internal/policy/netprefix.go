package policy

import (
	"maps"
	"net/netip"
	"slices"
)

// CheckPrefix decides a range of addresses, by exactly those rules whose own range contains it: what CheckNet says of each
// address in it that is in no longer range of a rule. Of the target, host and address don't count.
func (c *Compiled) CheckPrefix(t *NetTarget, p netip.Prefix) Verdict {
	return c.restrict(Net, func(l *Layer) (*Rule, bool) {
		var best *Rule
		for _, r := range l.Net.Rules() {
			if r.Net.contains(p) && r.Net.matches(t) && (best == nil || compareNet(r, best) > 0) {
				best = r
			}
		}
		return best, best != nil && best.Net.Allow
	}, HostNotListed)
}

// contains says whether a rule is about every address of a range.
func (n *CompiledNet) contains(p netip.Prefix) bool {
	switch {
	case n.Prefix.IsValid():
		return n.Prefix.Bits() <= p.Bits() && n.Prefix.Contains(p.Addr())
	case n.Name == "localhost":
		return slices.Contains(loopback[:], p.Addr())
	}
	return n.Name == "" && n.Suffix == ""
}

// Prefixes are the ranges of addresses that a rule is about; none when it's about a name. Without a host it's every one.
func (n *CompiledNet) Prefixes() []netip.Prefix {
	switch {
	case n.Prefix.IsValid():
		return []netip.Prefix{n.Prefix}
	case n.Name == "localhost":
		return []netip.Prefix{netip.PrefixFrom(loopback[0], 32), netip.PrefixFrom(loopback[1], 128)}
	case n.Name == "" && n.Suffix == "":
		return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	return nil
}

// Ports are those on which a rule may decide something.
func (n *CompiledNet) Ports() []uint16 {
	if n.Port != 0 {
		return []uint16{uint16(n.Port)}
	}
	var ports []uint16
	for _, port := range n.schemes() {
		if port != 0 && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

// CheckDirect says whether a range of addresses may be reached on a port whatever is said there and whatever its names are:
// the rules about addresses grant it in some way and deny it in none, none of them depends on what a connection shows, and
// no name is denied on that port.
func (c *Compiled) CheckDirect(proto string, port uint16, p netip.Prefix) Verdict {
	t := NetTarget{Protocol: proto, Port: port}
	v := c.CheckPrefix(&t, p)
	if proto != "tcp" || v.Reason == RuleDenies {
		return v
	}
	for _, scheme := range slices.Sorted(maps.Keys(defaultPorts)) {
		t.Scheme = scheme
		said := c.CheckPrefix(&t, p)
		if said.Reason == RuleDenies {
			return said
		}
		if said.Allow && !v.Allow {
			v = said
		}
	}
	if v.Allow && c.shows(port, p) {
		return Verdict{Reason: HostNotListed, Layer: v.Layer, Rule: NoMatch}
	}
	return v
}

// shows says whether what a connection to a range shows could decide about it.
func (c *Compiled) shows(port uint16, p netip.Prefix) bool {
	for _, l := range c.Layers {
		for _, r := range l.Net.Rules() {
			named := len(r.Net.Prefixes()) == 0
			if (named && !r.Net.Allow || !named && r.Net.contains(p)) && r.Net.asksOn(port) {
				return true
			}
		}
	}
	return false
}

// asksOn says whether a rule needs to know what is said on connections to a port.
func (n *CompiledNet) asksOn(port uint16) bool {
	for scheme, usual := range n.schemes() {
		if n.Port != 0 {
			usual = uint16(n.Port)
		}
		if usual == port && n.asks(scheme, port) {
			return true
		}
	}
	return false
}
