package landlock

import (
	"fmt"
	"net/netip"

	"github.com/toolguard/toolguard/internal/policy"
)

// net adds a row for each net rule of a layer, or one row if it has none. If an authority grants nothing, seccomp denies all internet sockets,
// which enforces the rules of the others.
func (k *reporter) net(l *policy.Layer) {
	rules := l.Net.Rules()
	for _, r := range rules {
		switch {
		case k.c.DeniesNet():
			k.add(r, result{status: policy.Enforced, why: "no internet socket at all", by: bySeccomp})
		case !restricts(l, policy.Net) && r.Net.Allow:
			k.add(r, enforced("everything else is allowed too"))
		case !restricts(l, policy.Net):
			k.add(r, notEnforceable("landlock can't deny a host beneath a default that allows: it sees ports"))
		case !r.Net.Allow:
			k.add(r, notEnforceable("landlock sees ports, no hosts, so it can't make this exception to a grant"))
		default:
			k.add(r, k.netGrant(rules, r.Net))
		}
	}
	if restricts(l, policy.Net) && len(rules) == 0 {
		k.rows = append(k.rows, policy.Enforceability{
			ID: layerID(l, "net"), Status: policy.Enforced, Why: "no internet socket at all", By: bySeccomp,
		})
	}
}

// netGrant reports on a rule that grants, in a layer that denies the rest. Landlock can limit connections and datagrams to a TCP or UDP port on
// all IPv4 and IPv6 addresses.
func (k *reporter) netGrant(rules []*policy.Rule, n *policy.CompiledNet) result {
	what := "any host on " + portsText(n)
	switch udp := isUDP(n); {
	case udp && k.abi < 10:
		return notEnforceable("landlock doesn't limit UDP before ABI 10: any host on any UDP port could be reached")
	case udp && n.Listen:
		return notEnforceable("under landlock a UDP server can't answer its clients, whose ports can be any")
	case n.OwnServers():
		return notEnforceable("landlock can't distinguish the session's own servers on loopback from others: name the port, or use a backend that can (root, or toolguardd)")
	case k.abi < 4:
		return notEnforceable("landlock doesn't limit TCP before ABI 4: any host could be reached")
	case n.Listen:
		return partlyEnforced("landlock limits the port that is bound, but not the address, and a socket that was never bound can " +
			"listen on a port that the kernel chooses")
	case !isAnyConnection(n):
		return partlyEnforced("landlock sees only ports, no schemes, paths or methods: " + what + " could be reached")
	case n.Port == 0 || !everywhere(rules, n):
		return partlyEnforced("landlock sees ports, no hosts: " + what + " could be reached")
	}
	return enforced("")
}

func isUDP(n *policy.CompiledNet) bool { return n.Protocol == "udp" }

// isAnyConnection reports whether a rule doesn't restrict the content of a connection.
func isAnyConnection(n *policy.CompiledNet) bool {
	return n.Scheme == "" && n.PathPrefix == "" && n.Methods == nil
}

func portsText(n *policy.CompiledNet) string {
	protocol, ps := "", ports(n)
	if isUDP(n) {
		protocol = "UDP "
	}
	if len(ps) == 1 {
		return fmt.Sprintf("%sport %d", protocol, ps[0])
	}
	return fmt.Sprintf("%sports %v", protocol, ps)
}

// everywhere reports whether rules grant a rule's port on every address, and deny it on none.
func everywhere(rules []*policy.Rule, of *policy.CompiledNet) bool {
	four, six := false, false
	for _, r := range rules {
		n := r.Net
		if !n.Allow {
			return false
		}
		if n.Port == of.Port && isUDP(n) == isUDP(of) && !n.Listen && isAnyConnection(n) {
			four = four || n.Prefix == netip.PrefixFrom(netip.IPv4Unspecified(), 0)
			six = six || n.Prefix == netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
	}
	return four && six
}

// schemePorts are the default ports of the schemes that a rule can name.
var schemePorts = []struct {
	scheme string
	port   uint16
}{{"http", 80}, {"https", 443}, {"ws", 80}, {"wss", 443}, {"ssh", 22}, {"git", 9418}}

// ports returns the ports that a rule can match: its own, its scheme's, or those of all schemes.
func ports(n *policy.CompiledNet) []uint16 {
	if n.Port != 0 || n.OwnServers() { // 0: the kernel chooses the port
		return []uint16{uint16(n.Port)}
	}
	var out []uint16
	for _, s := range schemePorts {
		if n.Scheme == s.scheme {
			return []uint16{s.port}
		}
		if s.scheme != "ws" && s.scheme != "wss" {
			out = append(out, s.port)
		}
	}
	return out
}
