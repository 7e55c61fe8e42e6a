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
	minBinding = time.Minute
	maxBinding = time.Hour
)

// Bounds on what is remembered. What ends first is forgotten first, and is resolved again when it's needed.
const (
	maxAddrs     = 8192
	namesPerAddr = 16
)

// nameCache is which names the session has resolved to which addresses. The zero value is empty.
type nameCache struct {
	mu    sync.Mutex
	addrs map[netip.Addr][]binding
}

type binding struct {
	name  string
	until time.Time
}

func (m *nameCache) add(name string, addr netip.Addr, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.addrs == nil {
		m.addrs = map[netip.Addr][]binding{}
	}
	bindings := slices.DeleteFunc(m.addrs[addr], func(t binding) bool { return t.name == name })
	if len(bindings) == namesPerAddr {
		first := slices.MinFunc(bindings, func(a, b binding) int { return a.until.Compare(b.until) })
		bindings = slices.DeleteFunc(bindings, func(t binding) bool { return t == first })
	}
	if len(m.addrs) >= maxAddrs && m.addrs[addr] == nil {
		m.shrink()
	}
	m.addrs[addr] = append(bindings, binding{name, until})
}

// shrink forgets what has ended, or else an eighth of the addresses, whichever: rare enough to look at all of them.
func (m *nameCache) shrink() {
	now := time.Now()
	for a, bindings := range m.addrs {
		if bindings = slices.DeleteFunc(bindings, func(t binding) bool { return now.After(t.until) }); len(bindings) == 0 {
			delete(m.addrs, a)
		} else {
			m.addrs[a] = bindings
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
func (m *nameCache) all() map[netip.Addr][]binding {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := maps.Clone(m.addrs)
	for addr, bindings := range all {
		all[addr] = slices.Clone(bindings)
	}
	return all
}

// names are those tied to an address now.
func (m *nameCache) names(addr netip.Addr) []string {
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
