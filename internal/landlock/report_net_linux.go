package landlock

import (
	"fmt"
	"net/netip"

	"github.com/toolguard/toolguard/internal/policy"
)

// net adds a row for each net rule of a layer, or one for all where it has none. Where an authority grants nothing, nothing of what the
// others say is left to be enforced.
func (k *report) net(l *policy.Layer) {
	rules := l.Net.Rules()
	for _, r := range rules {
		switch {
		case k.c.DeniesNet():
			k.add(r, status{status: policy.Enforced, why: "no internet socket at all", by: bySeccomp})
		case !restricts(l, policy.Net) && r.Net.Allow:
			k.add(r, enforced("everything else is allowed too"))
		case !restricts(l, policy.Net):
			k.add(r, notEnforceable("what the default allows can't be taken away by host: landlock sees ports"))
		case !r.Net.Allow:
			k.add(r, notEnforceable("landlock sees ports, no hosts, so this exception to what is granted can't be made"))
		default:
			k.add(r, k.grant(rules, r.Net))
		}
	}
	if restricts(l, policy.Net) && len(rules) == 0 {
		k.rows = append(k.rows, policy.Enforceability{
			ID: layerID(l, "net"), Status: policy.Enforced, Why: "no internet socket at all", By: bySeccomp,
		})
	}
}

// grant judges a rule that grants, in a layer that denies the rest. What Landlock can hold to is a TCP or UDP port on every
// address, v4 and v6, to connect or send to.
func (k *report) grant(rules []*policy.Rule, n *policy.CompiledNet) status {
	what := "any host on " + portsText(n)
	switch udp := isUDP(n); {
	case udp && k.abi < 10:
		return notEnforceable("landlock doesn't limit UDP before ABI 10: any host on any UDP port could be reached")
	case udp && n.Listen:
		return notEnforceable("landlock lets nobody who binds a UDP port answer: those who ask do so from any port")
	case n.OwnServers():
		return notEnforceable("landlock can't tell the session's own servers from others' on loopback: name the port, or use a backend that can (root, or toolguardd)")
	case k.abi < 4:
		return notEnforceable("landlock doesn't limit TCP before ABI 4: any host could be reached")
	case n.Listen:
		return partly("landlock limits the port that is bound, but no address, and a socket that was never bound can " +
			"listen on a port that the kernel chooses")
	case !raw(n):
		return partly("landlock sees ports alone, no schemes, paths or methods: " + what + " could be reached")
	case n.Port == 0 || !everywhere(rules, n):
		return partly("landlock sees ports, no hosts: " + what + " could be reached")
	}
	return enforced("")
}

func isUDP(n *policy.CompiledNet) bool { return n.Protocol == "udp" }

// raw reports whether a rule speaks of no more than a connection, or datagrams.
func raw(n *policy.CompiledNet) bool {
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

// everywhere reports whether rules grant a rule's port on every address, and take it away on none.
func everywhere(rules []*policy.Rule, of *policy.CompiledNet) bool {
	four, six := false, false
	for _, r := range rules {
		n := r.Net
		if !n.Allow {
			return false
		}
		if n.Port == of.Port && isUDP(n) == isUDP(of) && !n.Listen && raw(n) {
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

// ports are those that a rule can match: its own, its scheme's, or that of any scheme.
func ports(n *policy.CompiledNet) []uint16 {
	if n.Port != 0 || n.OwnServers() { // 0 is one that the kernel chooses
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
