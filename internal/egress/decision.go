package egress

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/toolguard/toolguard/internal/egress/dns"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// decision is a verdict on a client's target. target and url replace the client's own where another one decided; note is for people.
type decision struct {
	policy.Verdict
	target netname.Target
	url    string
	note   string
}

// mismatch is the decision on a connection whose content names another target.
func mismatch(note string) decision {
	return decision{Verdict: noRule(policy.HostMismatch), note: note}
}

// overLimit is the decision on a client that exceeds a limit of time or resources.
func overLimit(note string) decision { return decision{Verdict: noRule(policy.Limit), note: note} }

// noRecord is the decision on a query for a granted name that gets no answer.
func noRecord(note string) decision { return decision{Verdict: noRule(policy.DNSDenied), note: note} }

// noRule returns the verdict of a denial for which no rule is the reason.
func noRule(r policy.Reason) policy.Verdict {
	return policy.Verdict{Reason: r, Layer: -1, Rule: policy.NoMatch}
}

// notListed is the verdict where no rule could apply.
var notListed = noRule(policy.HostNotListed)

// noteSlow is the note on a client that exceeds a time limit.
const noteSlow = "too slow to complete its request"

// decideRaw decides whether arbitrary bytes may be sent. It allows them if the port is granted as raw, or for a scheme without names, to
// one of the names, and denied to none. Without names the address decides.
func (c *conn) decideRaw(names []string) decision {
	t := netname.Target{Protocol: "tcp", Port: c.to.Port(), Addr: c.to.Addr()}
	out := decision{Verdict: notListed, target: t}
	if t.Addr.IsValid() {
		out.Verdict = c.s.Policy.CheckNet(&t)
	}
	for _, n := range names {
		t.Host, t.Addr = n, netip.Addr{}
		switch r := c.checkAddr(&t, c.s.Policy.CheckNet(&t)); {
		case r.Reason == policy.RuleDenies:
			return r
		case r.Allow || !out.Allow:
			out = r
		}
	}
	return out
}

// decide decides on a target that the client named.
func (c *conn) decide(t *netname.Target) decision {
	if t.Port != c.to.Port() {
		return mismatch("the connection is to another port")
	}
	if t.Addr.IsValid() {
		if t.Dest() != c.to.Addr() {
			return mismatch("the connection is to another address")
		}
		return decision{Verdict: c.s.Policy.CheckNet(t), target: *t}
	}
	v := c.s.Policy.CheckNet(t)
	switch {
	case v.Reason == policy.HostNotListed:
		return c.decideByAddress(t, v)
	case !v.Allow:
		return decision{Verdict: v, target: *t}
	case !c.isBound(t):
		return c.unboundName(t)
	}
	return c.checkAddr(t, v)
}

// decideByAddress decides on a target whose name no rule matches: a grant of the address needs no name.
func (c *conn) decideByAddress(t *netname.Target, v policy.Verdict) decision {
	if c.to.Addr().IsValid() {
		there := atAddress(t, c.to.Addr())
		if a := c.s.Policy.CheckNet(&there); a.Allow {
			return decision{Verdict: a, target: there}
		}
	}
	return decision{Verdict: v, target: *t}
}

// checkAddr restricts a verdict that allows a name to the connection's address. For a tunnel the proxy chooses the address.
func (c *conn) checkAddr(t *netname.Target, v policy.Verdict) decision {
	if !v.Allow || !c.to.Addr().IsValid() {
		return decision{Verdict: v, target: *t}
	}
	if a := c.s.checkAddress(t, c.to.Addr(), c.isOwn); !a.Allow {
		return decision{Verdict: a, target: atAddress(t, c.to.Addr())}
	}
	return decision{Verdict: v, target: *t}
}

func (c *conn) isBound(t *netname.Target) bool {
	if c.pinnedNames != nil {
		return true
	}
	if !c.to.Addr().IsValid() { // a tunnel to a name
		return t.Host == c.tunnelHost
	}
	return c.s.isBound(c.ctx, c.client, t, c.to.Addr())
}

func (c *conn) unboundName(t *netname.Target) decision {
	return mismatch(t.Host + " isn't what the connection's address was resolved from")
}

// resolvesHere reports whether a target resolves to the connection's server, whether or not the policy allows the target.
func (c *conn) resolvesHere(t *netname.Target) (bool, error) {
	addr := c.to.Addr()
	switch {
	case t.Addr.IsValid() || !addr.IsValid():
		return t.Addr == addr && t.Host == c.tunnelHost, nil
	case c.pinnedNames != nil: // no lookup on a reload
		return true, nil
	case slices.Contains(c.names(), t.Host):
		return true, nil
	}
	ways, _ := c.s.Policy.Ways(t.Host)
	if _, err := c.s.checkLength(t.Host, ways); err != nil { // a query could leak data upstream
		return false, err
	}
	found, err := c.s.findAddresses(c.ctx, t.Host, queryType(addr))
	if errors.Is(err, dns.ErrCode) { // the name leads nowhere
		err = nil
	}
	return slices.Contains(found.Addrs, addr), err
}

// defaultTarget returns the target where the client names none: the only name of the address, or the address if it has no name. With
// several names it's the address where that is granted and no name is denied, or else the denied name.
func (c *conn) defaultTarget(scheme string, names []string) (t netname.Target, ok bool) {
	t = netname.Target{Scheme: scheme, Protocol: "tcp", Port: c.to.Port()}
	if len(names) == 1 {
		t.Host = names[0]
		return t, true
	}
	for _, t.Host = range names {
		if c.s.Policy.CheckNet(&t).Reason == policy.RuleDenies {
			return t, true
		}
	}
	t.Host, t.Addr = "", c.to.Addr()
	return t, len(names) == 0 || t.Addr.IsValid() && c.s.Policy.CheckNet(&t).Allow
}
