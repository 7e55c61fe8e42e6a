package darwin

import (
	"fmt"
	"net/netip"
	"slices"

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

// isEverywhere reports whether a rule to listen is about all addresses of the machine.
func isEverywhere(n *policy.CompiledNet) bool {
	return n.Host == "" || n.Prefix.IsValid() && n.Prefix.IsSingleIP() && n.Prefix.Addr().IsUnspecified()
}

func (p *profile) networkRules() (lines []string) {
	if p.c.DeniesNet() {
		return nil
	}
	add := func(format string, args ...any) {
		if l := fmt.Sprintf(format, args...); !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	open := p.isOpen()
	if open {
		add(`(allow network-outbound (remote ip "*:*"))`)
		add(`(allow network-bind (local ip "*:*"))`)
		add(`(allow network-inbound (local ip "*:*"))`)
	}
	if p.throughEgress() && p.egress != 0 {
		add(`(allow network-outbound (remote tcp "localhost:%d"))`, p.egress)
	}
	for _, r := range p.c.Rules {
		switch n := r.Net; {
		case n == nil:
		case n.OwnServers() && !open && p.listens(n):
			add(`(allow network-bind (local ip "localhost:*"))`)
			add(`(allow network-inbound (local ip "localhost:*"))`)
		case n.OwnServers():
		case n.Listen && n.Proto == "tcp" && !open && p.listens(n):
			host := localhost
			if isEverywhere(n) {
				host = "*"
			}
			add(`(allow network-bind (local tcp "%s:%d"))`, host, n.Port)
			add(`(allow network-inbound (local tcp "%s:%d"))`, host, n.Port)
		case n.Listen && open && !n.Allow && n.Port != 0:
			add(`(deny network-bind (local ip "*:%d"))`, n.Port)
			add(`(deny network-inbound (local ip "*:%d"))`, n.Port)
		case n.Listen || !isLoopback(n):
		case open && !n.Allow:
			protocol, port := n.Proto, fmt.Sprint(n.Port)
			if n.EveryPort() {
				protocol, port = "ip", "*"
			}
			if n.Proto != "" {
				protocol = n.Proto
			}
			add(`(deny network-outbound (remote %s "localhost:%s"))`, protocol, port)
		case !open && n.Allow && n.Port != 0 && p.connects(n):
			add(`(allow network-outbound (remote %s "localhost:%d"))`, n.Proto, n.Port)
		}
	}
	return lines
}

// listens reports whether every layer allows what a rule allows to listen on.
func (p *profile) listens(n *policy.CompiledNet) bool {
	if !n.Allow || !isLoopback(n) && !isEverywhere(n) {
		return false
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
