package policy

import (
	"net/netip"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

// CheckPrefix decides on a range of addresses, by exactly those rules whose own range contains it: as CheckNet does on each address in it
// that no longer range of a rule contains. It ignores the target's host and address.
func (c *Compiled) CheckPrefix(t *netname.Target, p netip.Prefix) Verdict {
	return c.restrict(Net, func(l *Layer) (*Rule, bool) {
		r := l.Net.deciding(t, func(f func(*Rule)) { l.Net.EachContaining(p, f) })
		return r, r != nil && r.Net.Allow
	}, HostNotListed)
}

// EachContaining calls f for every rule that is about all of a range of addresses.
func (t *NetTable) EachContaining(p netip.Prefix, f func(*Rule)) {
	if t == nil {
		return
	}
	for bits := range p.Bits() + 1 {
		for _, r := range t.prefixes[netip.PrefixFrom(p.Addr(), bits).Masked()] {
			f(r)
		}
	}
}

// Prefixes returns the ranges of addresses that a rule is about; none when the rule is about a name. A rule without a host is about every address.
func (n *CompiledNet) Prefixes() []netip.Prefix {
	switch {
	case n.Prefix.IsValid():
		return append([]netip.Prefix{n.Prefix}, n.carried()...)
	case n.Name == "localhost":
		return []netip.Prefix{netip.PrefixFrom(netname.Loopback[0], 32), netip.PrefixFrom(netname.Loopback[1], 128)}
	case n.Name == "" && n.Suffix == "":
		return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	}
	return nil
}

// carried returns the IPv6 ranges that lead to the addresses that a rule denies.
func (n *CompiledNet) carried() []netip.Prefix {
	if !n.matchesCarried() {
		return nil
	}
	return netname.EmbeddingRanges(n.Prefix)
}

// matchesCarried reports whether the rule also matches IPv6 addresses that embed its IPv4 ones: a denied host must not be
// reachable through a translator. A granted host need not be.
func (n *CompiledNet) matchesCarried() bool { return !n.Allow && !n.Listen && n.Prefix.Addr().Is4() }

// Ports returns the ports on which a rule may decide; none if it decides on every port.
func (n *CompiledNet) Ports() []uint16 {
	if n.Port != 0 {
		return []uint16{uint16(n.Port)}
	}
	if n.EveryPort() || n.OwnServers() {
		return nil
	}
	var ports []uint16
	for _, port := range n.schemes() {
		if port != 0 && !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	return ports
}

// OwnServers reports whether every authority allows the session to listen on any port of loopback and to connect there.
func (c *Compiled) OwnServers() bool {
	t := netname.Target{Protocol: "tcp", Listen: true} // without a port no other rule is about it
	return !slices.ContainsFunc(netname.Loopback[:], func(addr netip.Addr) bool {
		return !c.CheckPrefix(&t, netip.PrefixFrom(addr, addr.BitLen())).Allow
	})
}

// Directly returns a function that decides whether a range of addresses may be reached on a port with any content and by any name: the
// rules for addresses grant it in some way and deny it in none, none of them depends on the content of a connection, and no name is
// denied on that port.
func (c *Compiled) Directly(proto string) func(uint16, netip.Prefix) Verdict {
	denied := c.namesDenied()
	schemes := netname.Schemes()
	return func(port uint16, p netip.Prefix) Verdict {
		t := netname.Target{Protocol: proto, Port: port}
		v := c.CheckPrefix(&t, p)
		if proto != "tcp" || v.Reason == RuleDenies {
			return v
		}
		for _, t.Scheme = range schemes {
			each := c.CheckPrefix(&t, p)
			if each.Reason == RuleDenies {
				return each
			}
			if each.Allow && !v.Allow {
				v = each
			}
		}
		if v.Allow && (denied[port] || c.shows(port, p)) {
			return Verdict{Reason: HostNotListed, Layer: v.Layer, Rule: NoMatch}
		}
		return v
	}
}

// namesDenied returns the TCP ports on which a rule denies a name, or some content sent to it.
func (c *Compiled) namesDenied() map[uint16]bool {
	ports := map[uint16]bool{}
	for _, l := range c.Layers {
		for _, r := range l.Net.Rules() {
			if !r.Net.Allow && len(r.Net.Prefixes()) == 0 {
				r.Net.askOn(ports)
			}
		}
	}
	return ports
}

// shows reports whether the content of a connection to a range could decide on it.
func (c *Compiled) shows(port uint16, p netip.Prefix) bool {
	ports := map[uint16]bool{}
	for _, l := range c.Layers {
		l.Net.EachContaining(p, func(r *Rule) { r.Net.askOn(ports) })
	}
	return ports[port]
}
