package policy

import (
	"net/netip"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

// CheckNet decides a network target. A name that is allowed here must still resolve to an address that CheckAddress
// allows.
func (c *Compiled) CheckNet(t *netname.Target) Verdict {
	return c.restrict(Net, func(l *Layer) (*Rule, bool) {
		r := l.Net.Find(t)
		return r, r != nil && r.Net.Allow
	}, HostNotListed)
}

// DeniesNet reports whether some authority denies the whole network.
func (c *Compiled) DeniesNet() bool {
	return slices.ContainsFunc(c.Layers, func(l *Layer) bool {
		return l.Defaults[Net] == Deny && !slices.ContainsFunc(l.Net.Rules(), func(r *Rule) bool { return r.Net.Allow })
	})
}

// CheckAddress decides on an address that the target's name resolved to. A rule for addresses must grant one that isn't of the public
// internet, or is the machine's own; any other is allowed unless such a rule denies it.
func (c *Compiled) CheckAddress(t *netname.Target, addr netip.Addr, own bool) Verdict {
	return c.checkAddress(t, addr, own || !addr.IsValid() || addr.Zone() != "" || netname.IsSpecial(addr.Unmap()))
}

// CheckHostsAddress is CheckAddress for an address that the machine's hosts file has for the name: the administrator means that
// address, whatever kind it is. A rule that denies it still does.
func (c *Compiled) CheckHostsAddress(t *netname.Target, addr netip.Addr) Verdict {
	return c.checkAddress(t, addr, false)
}

func (c *Compiled) checkAddress(t *netname.Target, addr netip.Addr, isSpecial bool) Verdict {
	at := *t
	at.Host, at.Addr = "", addr.WithZone("").Unmap()
	v := c.restrict(Net, func(l *Layer) (*Rule, bool) {
		r := l.Net.Find(&at)
		return r, r != nil && r.Net.Allow
	}, HostNotListed)
	switch {
	case v.Reason == HostNotListed && isSpecial:
		v.Reason = PrivateAddress
	case v.Reason == HostNotListed:
		v = c.publicAddress(&at)
	}
	return v
}

// publicAddress is the verdict on an address that some layer has no rule for: denied only by a rule of another layer.
func (c *Compiled) publicAddress(at *netname.Target) Verdict {
	out := Verdict{Allow: true, Reason: AllowedByDefault, Layer: -1, Rule: NoMatch}
	for i, l := range c.Layers {
		if l.Defaults[Net] == Undeclared {
			continue
		}
		if r := l.Net.Find(at); r != nil && !r.Net.Allow {
			return Verdict{Reason: RuleDenies, Layer: int16(i), Rule: r.Index}
		}
	}
	return out
}
