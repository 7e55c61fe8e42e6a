package darwin

import (
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
)

// netRows adds a row for each net rule of a layer.
func (p *profile) netRows(l *policy.Layer, rule func(*policy.Rule, row)) {
	for _, r := range l.Net.Rules() {
		rule(r, p.netRow(r.Net))
	}
}

// netRow reports on a rule of net.
func (p *profile) netRow(n *policy.CompiledNet) row {
	switch {
	case p.c.DeniesNet():
		out := enforced()
		out.why = "no internet socket at all"
		return out
	case n.Listen:
		return p.listenRow(n)
	case needsEgress(n):
		return p.nameRow(n)
	case n.Proto == "udp" && (n.Suffix != "" || n.Name != "" && n.Name != localhost):
		return notEnforceable("egress decides on names by proxy variables, which are about TCP alone")
	case !isLoopback(n) && !n.Allow && p.throughEgress():
		return enforcedBy(byEgress)
	case !isLoopback(n):
		return notEnforceable("seatbelt can't name an address, except those of loopback")
	case !n.Allow && p.isOpen() && n.Name != localhost && !isLocalhost(n.Prefix):
		return notEnforceable("seatbelt's localhost is 127.0.0.1 and ::1: it can't deny other addresses of 127.0.0.0/8")
	case n.Allow && !p.isOpen() && !p.connects(n):
		return stricter("another rule denies it, or the other address of loopback, which is the same to seatbelt")
	case n.Allow && n.Name != localhost && !p.isOpen():
		return loopbackRow()
	}
	return enforced()
}

// nameRow reports on a rule that egress decides.
func (p *profile) nameRow(n *policy.CompiledNet) row {
	switch web := n.Scheme == "http" || n.Scheme == "https" || n.Scheme == "ws" || n.Scheme == "wss"; {
	case !n.Allow && p.egress != 0:
	case n.Scheme != "" && !web:
		return notEnforceable(fmt.Sprintf("%s by name can't be sent through egress's proxy: write scheme = \"https\"", n.Scheme))
	case n.Scheme == "" && n.Port != 0 && n.Port != 80 && n.Port != 443 && !n.DependsOnContent():
		return notEnforceable("raw TCP by name can't be sent through egress's proxy: add a scheme, such as \"https\"")
	case p.egress == 0:
		return notEnforceable("seatbelt can't name a host, and egress isn't there to decide on it")
	}
	out := enforcedBy(byEgress)
	out.why, out.stricter = "by proxy variables: what ignores them is denied", true
	return out
}

func (p *profile) listenRow(n *policy.CompiledNet) row {
	switch {
	case p.isOpen() && n.Allow:
		return enforced()
	case !n.Allow && !p.isOpen():
		return enforced()
	case !n.Allow && (isEverywhere(n) || n.OwnServers()):
		return enforced()
	case !n.Allow:
		return stricter("the port can't be listened on at any address")
	case n.Proto == "udp":
		return notEnforceable("a UDP server couldn't answer its clients, whose ports can be any")
	case n.OwnServers():
		return listensOn("; it can't distinguish the session's own servers from others, so they can't be connected to: name the port")
	case !isLoopback(n) && !isEverywhere(n):
		return notEnforceable("seatbelt can't name an address, except those of loopback")
	case isLoopback(n):
		return listensOn("")
	}
	return enforced()
}

// listensOn reports on a rule to listen on loopback. Loopback is all that a filter can say, and programs rarely listen on more than they want.
func listensOn(more string) row {
	out := partly("seatbelt's localhost is 127.0.0.1, ::1 and 0.0.0.0: a server could listen for other machines, too" + more)
	out.advisory = true
	return out
}

// loopbackRow reports on a rule for one address of loopback. It's no reason not to start: both are the machine itself.
func loopbackRow() row {
	out := partly("seatbelt knows loopback as a whole: 127.0.0.1 and ::1 are the same to it")
	out.advisory = true
	return out
}
