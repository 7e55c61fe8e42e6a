package policy

import (
	"net/netip"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

// CheckPrefix decides a range of addresses, by exactly those rules whose own range contains it: what CheckNet says of each
// address in it that is in no longer range of a rule. Of the target, host and address don't count.
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

// Prefixes are the ranges of addresses that a rule is about; none when it's about a name. Without a host it's every one.
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

// carried are the ranges of IPv6 that lead to the addresses that a rule denies.
func (n *CompiledNet) carried() []netip.Prefix {
	if !n.holdsCarried() {
		return nil
	}
	return netname.EmbeddingRanges(n.Prefix)
}

// holdsCarried says whether the rule is about IPv6 addresses that carry its IPv4 ones, too: who may not reach a host may not do so
// through a translator. Who may reach it need not be let use one.
func (n *CompiledNet) holdsCarried() bool { return !n.Allow && !n.Listen && n.Prefix.Addr().Is4() }

// Ports are those on which a rule may decide something; none of one that is about every port.
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

// OwnServers says whether the session may have servers on loopback, on any port, and connect to them: every authority lets it.
func (c *Compiled) OwnServers() bool {
	t := netname.Target{Protocol: "tcp", Listen: true} // without a port no other rule is about it
	for _, addr := range netname.Loopback {
		if !c.CheckPrefix(&t, netip.PrefixFrom(addr, addr.BitLen())).Allow {
			return false
		}
	}
	return true
}

// Directly says of ranges of addresses whether they may be reached on a port whatever is said there and whatever their names
// are: the rules about addresses grant it in some way and deny it in none, none of them depends on what a connection shows,
// and no name is denied on that port.
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
			said := c.CheckPrefix(&t, p)
			if said.Reason == RuleDenies {
				return said
			}
			if said.Allow && !v.Allow {
				v = said
			}
		}
		if v.Allow && (denied[port] || c.shows(port, p)) {
			return Verdict{Reason: HostNotListed, Layer: v.Layer, Rule: NoMatch}
		}
		return v
	}
}

// namesDenied are the TCP ports on which a name is denied, or something that is said to it.
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

// shows says whether what a connection to a range shows could decide about it.
func (c *Compiled) shows(port uint16, p netip.Prefix) bool {
	ports := map[uint16]bool{}
	for _, l := range c.Layers {
		l.Net.EachContaining(p, func(r *Rule) { r.Net.askOn(ports) })
	}
	return ports[port]
}
