package egress

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/egress/dns"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// Limits of the part of a name that a wildcard matches.
const (
	maxOpenLabels = 6
	maxOpenBytes  = 100
)

// resolve answers a query of the session.
func (s *Server) resolve(ctx context.Context, q *dns.Query, from client) dns.Answer {
	d := from.denial("dns")
	name, err := netname.Normalize(q.Name.String())
	if err != nil {
		return s.denyQuery(d, noRule(policy.DNSDenied), dns.Lower(q.Name), "the query is for no host name")
	}
	ways, v := s.Policy.Ways(name)
	if len(ways) == 0 {
		return s.denyQuery(d, v, name, "")
	}
	if v, err := s.checkLength(name, ways); err != nil {
		return s.denyQuery(d, v, name, err.Error())
	}
	if q.Class != dnsmessage.ClassINET || q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA {
		if q.Type != dnsmessage.TypeHTTPS && q.Type != dnsmessage.TypeSVCB { // browsers also query these, and continue with the addresses
			note := fmt.Sprintf("only addresses are answered, and the query was for %s of class %s", q.Type, q.Class)
			s.deny(d, noRecord(note), "dns://"+name)
		}
		return dns.Answer{} // no data
	}
	return s.addresses(ctx, d, name, ways, q.Type)
}

// denyQuery reports a denied query.
func (s *Server) denyQuery(d message.Denial, v policy.Verdict, name, note string) dns.Answer {
	d.Answer = explain.Describe(s.Policy, v, explain.Question{Resource: policy.Net, Target: "https://" + name + "/"}, "dns://"+name)
	if v.Reason == policy.HostNotListed {
		d.Answer.Reason = policy.DNSDenied
	}
	d.Answer.Note = note
	s.Denied(d)
	why := fmt.Sprintf("toolguard: %s", d.Answer.Reason)
	if r := d.Answer.Rule; r != nil {
		why += fmt.Sprintf(" (%s, %s)", r.ID, r.Position)
	}
	return dns.Answer{Code: dnsmessage.RCodeNameError, Why: why}
}

// checkLength limits a name that some authority grants by a wildcard only: a long name can carry data.
func (s *Server) checkLength(name string, ways []policy.Way) (policy.Verdict, error) {
	open, v := s.Policy.Open(name, ways)
	if labels := strings.Count(open, ".") + 1; labels > maxOpenLabels || len(open) > maxOpenBytes {
		v.Reason = policy.Limit
		return v, fmt.Errorf("%d labels and %d bytes beneath a wildcard, of at most %d and %d: a rule that names the host has no such bound",
			labels, len(open), maxOpenLabels, maxOpenBytes)
	}
	return v, nil
}

// addresses returns the allowed addresses of a granted name, after the kernel and the name cache have them.
func (s *Server) addresses(ctx context.Context, d message.Denial, name string, ways []policy.Way, typ dnsmessage.Type) dns.Answer {
	f, err := s.findAddresses(ctx, name, typ)
	if errors.Is(err, errBusy) {
		s.deny(d, overLimit(err.Error()), "dns://"+name)
	}
	if err != nil {
		return dns.Answer{Code: dnsmessage.RCodeServerFailure, Why: err.Error()}
	}
	s.policyMu.RLock() // only the policy in force adds to the kernel and the cache
	defer s.policyMu.RUnlock()
	if s.latest != s {
		const why = "the policy has changed meanwhile"
		s.deny(d, noRecord(why), "dns://"+name)
		return dns.Answer{Code: dnsmessage.RCodeServerFailure, Why: why}
	}
	for _, alias := range f.Chain {
		if w, v := s.Policy.Ways(alias); len(w) == 0 && v.Reason == policy.RuleDenies {
			return s.denyQuery(d, v, alias, name+" is an alias of it")
		}
	}
	a := dns.Answer{Code: f.Code, TTL: min(f.TTL, maxBinding)}
	until := time.Now().Add(max(a.TTL, minBinding))
	for _, addr := range f.Addrs {
		usable, v := s.usableWays(addr, ways)
		if len(usable) == 0 {
			about := atAddress(likelyTarget(ways), addr)
			s.deny(d, decision{Verdict: v, target: about, note: name + " resolves to it"}, "tcp://"+about.HostPort())
			continue
		}
		if err := s.permit(addr, usable, until); err != nil {
			s.deny(d, decision{Verdict: noRule(policy.EngineError), note: err.Error()}, "dns://"+name)
			return dns.Answer{Code: dnsmessage.RCodeServerFailure, Why: "the kernel doesn't accept its address"}
		}
		s.names.add(name, addr, until)
		a.Addrs = append(a.Addrs, addr)
	}
	return a
}

// findAddresses resolves a name. Queries for "localhost" (RFC 6761, 6.3) and for names of the hosts file don't leave the machine.
func (s *Server) findAddresses(ctx context.Context, name string, typ dnsmessage.Type) (dns.Found, error) {
	addrs, isHost := s.Hosts[name]
	switch {
	case isHost && name != "localhost":
		return foundInHosts(addrs, typ), nil
	case name != "localhost":
		return s.lookup(ctx, name, typ)
	case typ == dnsmessage.TypeA:
		return dns.Found{Addrs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, TTL: maxBinding}, nil
	}
	return dns.Found{Addrs: []netip.Addr{netip.IPv6Loopback()}, TTL: maxBinding}, nil
}

var errBusy = errors.New("too many names are being looked up")

// lookup asks the name servers, unless too many lookups run.
func (s *Server) lookup(ctx context.Context, name string, typ dnsmessage.Type) (dns.Found, error) {
	select {
	case s.lookupSlots <- struct{}{}:
		defer func() { <-s.lookupSlots }()
	default:
		return dns.Found{}, errBusy // at once: a program without an answer waits for its time-out
	}
	return dns.Lookup(ctx, s.Upstream, name, typ)
}

// usableWays returns the ways that an address allows. Without any, the verdict says why.
func (s *Server) usableWays(addr netip.Addr, ways []policy.Way) (usable []policy.Way, verdict policy.Verdict) {
	own := s.IsOwn(addr)
	for _, w := range ways {
		v := s.checkAddress(&w.Target, addr, own)
		if v.Allow {
			usable = append(usable, w)
		} else {
			verdict = v
		}
	}
	return usable, verdict
}

// likelyTarget returns the most likely purpose of a lookup.
func likelyTarget(ways []policy.Way) *netname.Target {
	i := slices.IndexFunc(ways, func(w policy.Way) bool { return w.Target.Scheme == "https" })
	return &ways[max(i, 0)].Target
}

// atAddress returns a target with an address in place of its name.
func atAddress(t *netname.Target, addr netip.Addr) netname.Target {
	there := *t
	there.Host, there.Addr = "", addr
	return there
}

// permit permits the ports on which the name alone decides.
func (s *Server) permit(addr netip.Addr, ways []policy.Way, until time.Time) error {
	for _, w := range ways {
		t := &w.Target
		if !w.Direct() || t.Protocol == "tcp" && s.askedPorts[t.Port] {
			continue
		}
		if err := s.Kernel.Permit(s.Generation, t.Protocol, netip.AddrPortFrom(addr, t.Port), until); err != nil {
			return err
		}
	}
	return nil
}

// permitResolved permits the ports of the resolved names that this policy grants: while the answers are valid, and for open connections.
func (s *Server) permitResolved() error {
	for addr, bindings := range s.names.all() {
		for _, t := range bindings {
			ways, _ := s.Policy.Ways(t.name)
			usable, _ := s.usableWays(addr, ways)
			if err := s.permit(addr, usable, t.until); err != nil {
				return err
			}
		}
	}
	return nil
}

// isBound reports whether the allowed name of a target resolves to an address, in the cache or now.
func (s *Server) isBound(ctx context.Context, from client, t *netname.Target, addr netip.Addr) bool {
	if slices.Contains(s.namesOf(addr), t.Host) {
		return true
	}
	ways, _ := s.Policy.Ways(t.Host)
	if len(ways) == 0 { // allowed by default, on a port without a way
		ways = []policy.Way{{Target: *t, Verdict: s.Policy.CheckNet(t)}}
	}
	if _, err := s.checkLength(t.Host, ways); err != nil {
		return false
	}
	a := s.addresses(ctx, from.denial("dns"), t.Host, ways, queryType(addr))
	return slices.Contains(a.Addrs, addr)
}

// queryType returns the type of query for an address.
func queryType(addr netip.Addr) dnsmessage.Type {
	if addr.Is6() {
		return dnsmessage.TypeAAAA
	}
	return dnsmessage.TypeA
}
