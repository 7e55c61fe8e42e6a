// Package ownaddr knows the addresses of this machine. By them a session could reach local services that a firewall hides from other hosts.
package ownaddr

import (
	"net"
	"net/netip"
)

// IsNow reports whether an address is one of this machine's, or whether that can't be found out. It lists them each time.
func IsNow(addr netip.Addr) bool {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if own, ok := netip.AddrFromSlice(n.IP); ok && own.Unmap() == addr.Unmap().WithZone("") {
				return true
			}
		}
	}
	return false
}
