package egress

import (
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// How long a name stays bound to an address. Programs connect later than they resolve, whatever the answer's time to live is.
const (
	minBinding = time.Minute
	maxBinding = time.Hour
)

// Limits of the cache. What expires first is evicted first, and is resolved again when needed.
const (
	maxAddrs     = 8192
	namesPerAddr = 16
)

// nameCache has the names that the session has resolved, by address. The zero value is empty.
type nameCache struct {
	mu    sync.Mutex
	addrs map[netip.Addr][]binding
}

type binding struct {
	name  string
	until time.Time
}

func (c *nameCache) add(name string, addr netip.Addr, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.addrs == nil {
		c.addrs = map[netip.Addr][]binding{}
	}
	bindings := slices.DeleteFunc(c.addrs[addr], func(t binding) bool { return t.name == name })
	if len(bindings) == namesPerAddr {
		first := slices.MinFunc(bindings, func(a, b binding) int { return a.until.Compare(b.until) })
		bindings = slices.DeleteFunc(bindings, func(t binding) bool { return t == first })
	}
	if len(c.addrs) >= maxAddrs && c.addrs[addr] == nil {
		c.shrink()
	}
	c.addrs[addr] = append(bindings, binding{name, until})
}

// shrink evicts expired bindings, and if that isn't enough any eighth of the addresses. It's rare enough to look at all of them.
func (c *nameCache) shrink() {
	now := time.Now()
	for a, bindings := range c.addrs {
		if bindings = slices.DeleteFunc(bindings, func(t binding) bool { return now.After(t.until) }); len(bindings) == 0 {
			delete(c.addrs, a)
		} else {
			c.addrs[a] = bindings
		}
	}
	for a := range c.addrs {
		if len(c.addrs) < maxAddrs*7/8 {
			return
		}
		delete(c.addrs, a)
	}
}

// all returns all bindings, including expired ones.
func (c *nameCache) all() map[netip.Addr][]binding {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.addrs)
	for addr, bindings := range all {
		all[addr] = slices.Clone(bindings)
	}
	return all
}

// names returns the names that are bound to an address now.
func (c *nameCache) names(addr netip.Addr) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for _, t := range c.addrs[addr] {
		if time.Now().Before(t.until) {
			names = append(names, t.name)
		}
	}
	return names
}
