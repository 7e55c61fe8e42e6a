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

// hosts has the granted names of the machine's hosts file, by address. Programs read that file and send no query, so its names count as
// resolved from the session's start.
type hosts map[netip.Addr][]hostName

// hostName is a granted name, with the ways that its address allows.
type hostName struct {
	name string
	ways []policy.Way
}

// hostsLifetime is longer than any session.
const hostsLifetime = 100 * 365 * 24 * time.Hour

func (s *Server) grantedHosts() hosts {
	h := hosts{}
	for _, name := range slices.Sorted(maps.Keys(s.Hosts)) {
		ways, _ := s.Policy.Ways(name)
		for _, addr := range s.Hosts[name] {
			if usable, _ := s.usableWays(addr, ways); len(usable) > 0 {
				h[addr] = append(h[addr], hostName{name, usable})
			}
		}
	}
	return h
}

// permitHosts permits the ports on which a name of the hosts file decides alone.
func (s *Server) permitHosts() {
	until := time.Now().Add(hostsLifetime)
	for addr, names := range s.hosts {
		for _, n := range names {
			if err := s.permit(addr, n.ways, until); err != nil {
				s.deny(client{}.denial("dns"), decision{Verdict: noRule(policy.EngineError), note: err.Error()}, "dns://"+n.name)
			}
		}
	}
}

// namesOf returns the names that are bound to an address, by the hosts file or by the session's queries.
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

// foundInHosts is the hosts file's answer to a query. No name server adds to it.
func foundInHosts(addrs []netip.Addr, typ dnsmessage.Type) dns.Found {
	f := dns.Found{TTL: minBinding}
	for _, a := range addrs {
		if queryType(a) == typ {
			f.Addrs = append(f.Addrs, a)
		}
	}
	return f
}
