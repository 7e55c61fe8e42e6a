package darwin

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// network writes the rules about internet sockets. A filter's host can only be * or localhost, so hosts are decided by egress, which is the
// one thing that such a session can connect to.
func (p *profile) network() {
	lines := p.networkRules()
	p.line("\n; network")
	p.line("(allow system-socket (socket-domain AF_UNIX))")
	if len(lines) == 0 {
		return
	}
	p.line("(allow system-socket (socket-domain AF_INET) (socket-domain AF_INET6))")
	for _, l := range lines {
		p.line(l)
	}
	if p.isOpen() {
		p.line(openNetworkPart)
	}
}

// isOpen reports whether every host is allowed, except for some on loopback.
func (p *profile) isOpen() bool {
	return !p.throughEgress() && !slices.ContainsFunc(p.layers(), func(l *policy.Layer) bool { return l.Defaults[policy.Net] == policy.Deny })
}

// throughEgress reports whether some rule is about what egress alone can decide.
func (p *profile) throughEgress() bool {
	return !p.c.DeniesNet() && slices.ContainsFunc(p.c.Rules, func(r *policy.Rule) bool { return r.Net != nil && needsEgress(r.Net) })
}

// needsEgress reports whether a rule is about a name, or about what a connection contains.
func needsEgress(n *policy.CompiledNet) bool {
	named := n.Name != "" && n.Name != localhost || n.Suffix != ""
	return !n.Listen && n.Proto != "udp" && (named || isLoopback(n) && (n.Scheme != "" || n.DependsOnContent() || n.Port == 0 && n.Allow))
}

const localhost = "localhost"

// isLoopback reports whether a rule is about the machine itself.
func isLoopback(n *policy.CompiledNet) bool {
	return n.Name == localhost || n.Prefix.IsValid() && n.Prefix.Addr().IsLoopback() && (n.Prefix.Addr().Is6() || n.Prefix.Bits() >= 8)
}

// isLocalhost reports whether a prefix is one of the addresses that seatbelt means by localhost.
func isLocalhost(p netip.Prefix) bool {
	return p.IsValid() && p.IsSingleIP() && slices.Contains(netname.Loopback[:], p.Addr())
}

// isEverywhere reports whether a rule to listen is about all addresses of the machine.
func isEverywhere(n *policy.CompiledNet) bool {
	return n.Host == "" || n.Prefix.IsValid() && n.Prefix.IsSingleIP() && n.Prefix.Addr().IsUnspecified()
}

// networkRules returns the rules, denials first: a grant is written only where every layer allows it.
func (p *profile) networkRules() (lines []string) {
	if p.c.DeniesNet() {
		return nil
	}
	add := func(format string, args ...any) {
		if l := fmt.Sprintf(format, args...); !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	if p.isOpen() {
		add(`(allow network-outbound (remote ip "*:*"))`)
		add(`(allow network-bind (local ip "*:*"))`)
		add(`(allow network-inbound (local ip "*:*"))`)
	}
	if p.throughEgress() && p.egress != 0 {
		add(`(allow network-outbound (remote tcp "localhost:%d"))`, p.egress)
	}
	for _, allow := range []bool{false, true} {
		for _, r := range p.c.Rules {
			if n := r.Net; n != nil && n.Allow == allow && (allow || p.isOpen()) {
				p.addressRules(n, add)
			}
		}
	}
	return lines
}

// addressRules adds what a rule denies on loopback, or what it and every layer allow there.
func (p *profile) addressRules(n *policy.CompiledNet, add func(string, ...any)) {
	protocol, host, port := cmp.Or(n.Proto, "ip"), localhost, "*"
	if n.Port != 0 {
		port = strconv.Itoa(n.Port)
	}
	switch {
	case n.Listen && n.Allow && p.listens(n), n.Listen && !n.Allow:
		if n.OwnServers() {
			protocol = "ip"
		} else if isEverywhere(n) || !n.Allow {
			host = "*"
		}
		add(`(%s network-bind (local %s "%s:%s"))`, action(n.Allow), protocol, host, port)
		add(`(%s network-inbound (local %s "%s:%s"))`, action(n.Allow), protocol, host, port)
	case n.Listen || !isLoopback(n):
	case !n.Allow, n.Port != 0 && p.connects(n):
		add(`(%s network-outbound (remote %s "%s:%s"))`, action(n.Allow), protocol, host, port)
	}
}

// listens reports whether every layer allows what a rule allows to listen on.
func (p *profile) listens(n *policy.CompiledNet) bool {
	if n.Proto == "udp" || !isLoopback(n) && !isEverywhere(n) {
		return false // the clients of a UDP server can have any port
	}
	addresses := netname.Loopback[:]
	if isEverywhere(n) {
		addresses = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	return p.some(addresses, n, true)
}

// connects reports whether every layer allows connections to a rule's port of loopback, and none denies them for one of its addresses.
func (p *profile) connects(n *policy.CompiledNet) bool { return p.some(netname.Loopback[:], n, false) }

// some reports whether one of the addresses is allowed, and none is denied by a rule.
func (p *profile) some(addresses []netip.Addr, n *policy.CompiledNet, listen bool) (ok bool) {
	for _, a := range addresses {
		v := p.c.CheckNet(&netname.Target{Addr: a, Port: uint16(n.Port), Protocol: n.Proto, Listen: listen})
		if ok = ok || v.Allow; v.Reason == policy.RuleDenies {
			return false
		}
	}
	return ok
}
