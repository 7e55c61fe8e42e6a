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

// Bounds on the part of a name that a wildcard leaves open.
const (
	maxOpenLabels = 6
	maxOpenBytes  = 100
)

// resolve answers a question of the session.
func (s *Server) resolve(ctx context.Context, q *dns.Query, from client) dns.Answer {
	d := from.denial("dns")
	name, err := netname.Normalize(q.Name.String())
	if err != nil {
		return s.refuse(d, noRecord, dns.Lower(q.Name), "it is no host name")
	}
	ways, v := s.Policy.Ways(name)
	if len(ways) == 0 {
		return s.refuse(d, v, name, "")
	}
	if v, err := s.tunnel(name, ways); err != nil {
		return s.refuse(d, v, name, err.Error())
	}
	if q.Class != dnsmessage.ClassINET || q.Type != dnsmessage.TypeA && q.Type != dnsmessage.TypeAAAA {
		if q.Type != dnsmessage.TypeHTTPS && q.Type != dnsmessage.TypeSVCB { // browsers ask for those, too, and go on by the addresses
			note := fmt.Sprintf("only its addresses are told, and %s of class %s was asked for", q.Type, q.Class)
			s.deny(d, decision{Verdict: noRecord, note: note}, "dns://"+name)
		}
		return dns.Answer{} // no data
	}
	return s.addresses(ctx, d, name, ways, q.Type)
}

// noRecord is the verdict on a question about a granted name that isn't answered all the same.
var noRecord = policy.Verdict{Reason: policy.DNSDenied, Layer: -1, Rule: policy.NoMatch}

// refuse reports a denied question.
func (s *Server) refuse(d message.Denial, v policy.Verdict, name, note string) dns.Answer {
	d.Answer = explain.Describe(s.Policy, v, explain.Question{Resource: policy.Net, Target: "https://" + name + "/"}, "dns://"+name)
	if v.Reason == policy.HostNotListed {
		d.Answer.Reason = policy.DNSDenied
	}
	d.Answer.Note = note
	s.Tell(d)
	why := fmt.Sprintf("toolguard: %s", d.Answer.Reason)
	if r := d.Answer.Rule; r != nil {
		why += fmt.Sprintf(" (%s, %s)", r.ID, r.Position)
	}
	return dns.Answer{Code: dnsmessage.RCodeNameError, Why: why}
}

// tunnel is why a name that some authority grants by a wildcard alone is too long.
func (s *Server) tunnel(name string, ways []policy.Way) (policy.Verdict, error) {
	open, v := s.Policy.Open(name, ways)
	if labels := strings.Count(open, ".") + 1; labels > maxOpenLabels || len(open) > maxOpenBytes {
		v.Reason = policy.Limit
		return v, fmt.Errorf("%d labels and %d bytes beneath a wildcard, of at most %d and %d: a rule that names the host has no such bound",
			labels, len(open), maxOpenLabels, maxOpenBytes)
	}
	return v, nil
}

// addresses are those of a granted name that the session may have. When they are returned the kernel and the name cache have them.
func (s *Server) addresses(ctx context.Context, d message.Denial, name string, ways []policy.Way, typ dnsmessage.Type) dns.Answer {
	f, err := s.find(ctx, name, typ)
	if errors.Is(err, errBusy) {
		s.deny(d, decision{Verdict: slow, note: err.Error()}, "dns://"+name)
	}
	if err != nil {
		return dns.Answer{Code: dnsmessage.RCodeServerFailure, Why: err.Error()}
	}
	s.turn.RLock() // what is noted down is the word of the policy in force
	defer s.turn.RUnlock()
	if s.latest != s {
		const why = "the policy has changed meanwhile"
		s.deny(d, decision{Verdict: noRecord, note: why}, "dns://"+name)
		return dns.Answer{Code: dnsmessage.RCodeServerFailure, Why: why}
	}
	for _, alias := range f.Chain {
		if w, v := s.Policy.Ways(alias); len(w) == 0 && v.Reason == policy.RuleDenies {
			return s.refuse(d, v, alias, name+" is another name of it")
		}
	}
	a := dns.Answer{Code: f.Code, TTL: min(f.TTL, maxBinding)}
	until := time.Now().Add(max(a.TTL, minBinding))
	for _, addr := range f.Addrs {
		fit, v := s.fit(addr, ways)
		if len(fit) == 0 {
			about := at(likely(ways), addr)
			s.deny(d, decision{Verdict: v, about: about, note: name + " resolves to it"}, "tcp://"+about.HostPort())
			continue
		}
		if err := s.permit(addr, fit, until); err != nil {
			s.deny(d, decision{Verdict: policy.Verdict{Reason: policy.EngineError, Layer: -1, Rule: policy.NoMatch}, note: err.Error()}, "dns://"+name)
			return dns.Answer{Code: dnsmessage.RCodeServerFailure, Why: "the kernel can't be told"}
		}
		s.names.add(name, addr, until)
		a.Addrs = append(a.Addrs, addr)
	}
	return a
}

// find is what a name stands for. "localhost" never leaves the machine (RFC 6761, 6.3), and neither does a name of its hosts file.
func (s *Server) find(ctx context.Context, name string, typ dnsmessage.Type) (dns.Found, error) {
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

// lookup asks the name servers, unless too many are asked already.
func (s *Server) lookup(ctx context.Context, name string, typ dnsmessage.Type) (dns.Found, error) {
	select {
	case s.looking <- struct{}{}:
		defer func() { <-s.looking }()
	default:
		return dns.Found{}, errBusy // at once: a program that isn't answered waits for long
	}
	return dns.Lookup(ctx, s.Upstream, name, typ)
}

// fit are the ways that an address may be used in; without any, the verdict says why.
func (s *Server) fit(addr netip.Addr, ways []policy.Way) (fit []policy.Way, why policy.Verdict) {
	own := s.Own(addr)
	for _, w := range ways {
		v := s.checkAddress(&w.Target, addr, own)
		if v.Allow {
			fit = append(fit, w)
		} else {
			why = v
		}
	}
	return fit, why
}

// likely is what a name is most likely looked up for.
func likely(ways []policy.Way) *netname.Target {
	i := slices.IndexFunc(ways, func(w policy.Way) bool { return w.Target.Scheme == "https" })
	return &ways[max(i, 0)].Target
}

// at is a target's address in its name's place.
func at(t *netname.Target, addr netip.Addr) netname.Target {
	there := *t
	there.Host, there.Addr = "", addr
	return there
}

// permit opens the ports on which the name alone decides.
func (s *Server) permit(addr netip.Addr, ways []policy.Way, until time.Time) error {
	for _, w := range ways {
		t := &w.Target
		if !w.Direct() || t.Protocol == "tcp" && s.asked[t.Port] {
			continue
		}
		if err := s.Kernel.Permit(s.Generation, t.Protocol, netip.AddrPortFrom(addr, t.Port), until); err != nil {
			return err
		}
	}
	return nil
}

// permitAgain opens the ports on which the names alone decide that the session has resolved, as far as this policy grants them: for as long as
// the answers may be used, and for what was let there before.
func (s *Server) permitAgain() error {
	for addr, bindings := range s.names.all() {
		for _, t := range bindings {
			ways, _ := s.Policy.Ways(t.name)
			fit, _ := s.fit(addr, ways)
			if err := s.permit(addr, fit, t.until); err != nil {
				return err
			}
		}
	}
	return nil
}

// tied says whether the name of a target that the policy allows leads to an address, by what the session was answered or by what is
// true now.
func (s *Server) tied(ctx context.Context, from client, t *netname.Target, addr netip.Addr) bool {
	if slices.Contains(s.namesOf(addr), t.Host) {
		return true
	}
	ways, _ := s.Policy.Ways(t.Host)
	if len(ways) == 0 { // allowed by default, on a port that no way is known on
		ways = []policy.Way{{Target: *t, Verdict: s.Policy.CheckNet(t)}}
	}
	if _, err := s.tunnel(t.Host, ways); err != nil {
		return false
	}
	a := s.addresses(ctx, from.denial("dns"), t.Host, ways, typeOf(addr))
	return slices.Contains(a.Addrs, addr)
}

// typeOf is what is asked for an address like this.
func typeOf(addr netip.Addr) dnsmessage.Type {
	if addr.Is6() {
		return dnsmessage.TypeAAAA
	}
	return dnsmessage.TypeA
}
