package egress

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How long a name stays tied to an address: at least a while, as programs resolve first and connect later, whatever the
// answer's time to live is; and not for ever.
const (
	minTie = time.Minute
	maxTie = time.Hour
)

// Bounds on what is remembered. What ends first is forgotten first, and is resolved again when it's needed.
const (
	maxAddrs     = 8192
	namesPerAddr = 16
)

// memory is which names the session has resolved to which addresses. The zero value is empty.
type memory struct {
	mu    sync.Mutex
	addrs map[netip.Addr][]tie
}

type tie struct {
	name  string
	until time.Time
}

func (m *memory) add(name string, addr netip.Addr, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.addrs == nil {
		m.addrs = map[netip.Addr][]tie{}
	}
	ties := slices.DeleteFunc(m.addrs[addr], func(t tie) bool { return t.name == name })
	if len(ties) == namesPerAddr {
		first := slices.MinFunc(ties, func(a, b tie) int { return a.until.Compare(b.until) })
		ties = slices.DeleteFunc(ties, func(t tie) bool { return t == first })
	}
	if len(m.addrs) >= maxAddrs && m.addrs[addr] == nil {
		m.shrink()
	}
	m.addrs[addr] = append(ties, tie{name, until})
}

// shrink forgets what has ended, or else an eighth of the addresses, whichever: rare enough to look at all of them.
func (m *memory) shrink() {
	now := time.Now()
	for a, ties := range m.addrs {
		if ties = slices.DeleteFunc(ties, func(t tie) bool { return now.After(t.until) }); len(ties) == 0 {
			delete(m.addrs, a)
		} else {
			m.addrs[a] = ties
		}
	}
	for a := range m.addrs {
		if len(m.addrs) < maxAddrs*7/8 {
			return
		}
		delete(m.addrs, a)
	}
}

// all are also those that were tied to an address once.
func (m *memory) all() map[netip.Addr][]tie {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.addrs)
	for addr, ties := range all {
		all[addr] = slices.Clone(ties)
	}
	return all
}

// names are those tied to an address now.
func (m *memory) names(addr netip.Addr) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var names []string
	for _, t := range m.addrs[addr] {
		if time.Now().Before(t.until) {
			names = append(names, t.name)
		}
	}
	return names
}
