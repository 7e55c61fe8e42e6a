package egress

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/egress/dns"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// hosts are the granted names of the machine's hosts file, by the addresses that it gives them. Programs read that file by themselves and
// never ask for these names, so they count as if the session had resolved them at its start.
type hosts map[netip.Addr][]hostName

// hostName is a granted name, with the ways in which the address that it leads to may be reached.
type hostName struct {
	name string
	ways []policy.Way
}

// always is for as long as any session runs.
const always = 100 * 365 * 24 * time.Hour

func (s *Server) grantedHosts() hosts {
	h := hosts{}
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		ways, _ := s.Policy.Ways(name)
		for _, addr := range s.Hosts[name] {
			if fit, _ := s.fit(addr, ways); len(fit) > 0 {
				h[addr] = append(h[addr], hostName{name, fit})
			}
		}
	}
	return h
}

// permitHosts lets the session reach the names of the hosts file on the ports on which the name alone decides.
func (s *Server) permitHosts() {
	until := time.Now().Add(always)
	for addr, names := range s.hosts {
		for _, n := range names {
			if err := s.permit(addr, n.ways, until); err != nil {
				s.deny(client{}.denial("dns"), decision{Verdict: policy.Verdict{Reason: policy.EngineError, Layer: -1, Rule: policy.NoMatch}, note: err.Error()}, "dns://"+n.name)
			}
		}
	}
}

// namesOf are the names that lead to an address: those of the hosts file, and those that the session was answered about.
func (s *Server) namesOf(addr netip.Addr) []string {
	names := s.names.names(addr)
	for _, n := range s.hosts[addr] {
		if !slices.Contains(names, n.name) {
			names = append(names, n.name)
		}
	}
	return names
}

// checkAddress decides on an address of a name.
func (s *Server) checkAddress(t *netname.Target, addr netip.Addr, own bool) policy.Verdict {
	if slices.Contains(s.Hosts[t.Host], addr) {
		return s.Policy.CheckHostsAddress(t, addr)
	}
	return s.Policy.CheckAddress(t, addr, own)
}

// foundInHosts is what the hosts file says of a name: no answer of a name server adds to it.
func foundInHosts(addrs []netip.Addr, typ dnsmessage.Type) dns.Found {
	f := dns.Found{TTL: minBinding}
	for _, a := range addrs {
		if typeOf(a) == typ {
			f.Addrs = append(f.Addrs, a)
		}
	}
	return f
}
