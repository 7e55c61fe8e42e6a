package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// OwnAddresses are the addresses of this machine, that is of this network namespace: services here that a firewall keeps from the outside
// are reached by them. They are listed once, and again after each change. While they can't be listed, every address counts as one.
type OwnAddresses struct {
	mu      sync.Mutex
	changes *nl.NetlinkSocket
	handle  *netlink.Handle
	known   bool
	addrs   map[netip.Addr]bool
	nets    []netip.Prefix
}

// ListOwnAddresses lists them. It opens all that it takes to list them again: that needs no privilege and no further socket.
func ListOwnAddresses() (_ *OwnAddresses, err error) {
	o := &OwnAddresses{}
	defer func() {
		if err != nil {
			o.Close()
			err = fmt.Errorf("list the machine's own addresses: %w", err)
		}
	}()
	groups := []uint{unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR, unix.RTNLGRP_IPV4_ROUTE, unix.RTNLGRP_IPV6_ROUTE}
	if o.changes, err = nl.Subscribe(unix.NETLINK_ROUTE, groups...); err != nil { // first, so that no change is missed
		return nil, err
	}
	if o.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
		return nil, err
	}
	// The kernel filters what it lists (Linux 4.20).
	if err = errors.Join(o.handle.SetStrictCheck(true), o.handle.SetSocketTimeout(dialTime)); err != nil {
		return nil, err
	}
	if err = o.list(); err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	o.known = err == nil
	return o, nil
}

// Close gives the sockets back. Has isn't to be called any more.
func (o *OwnAddresses) Close() {
	if o.changes != nil {
		o.changes.Close()
	}
	if o.handle != nil {
		o.handle.Close()
	}
}

// Has reports whether an address is the machine's own. One that can't be decided on is.
func (o *OwnAddresses) Has(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed() || !o.known {
		o.known = o.list() == nil
	}
	return !o.known || o.addrs[addr] || slices.ContainsFunc(o.nets, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// changed takes what the kernel has said of changes. It says it before the address can be used (__inet_insert_ifa, __ipv6_ifa_notify).
// What couldn't be kept (ENOBUFS) was a change, and so is everything once the subscription is broken.
func (o *OwnAddresses) changed() (changed bool) {
	for {
		var first [1]byte
		switch _, err := unix.Read(o.changes.GetFd(), first[:]); {
		case errors.Is(err, unix.EAGAIN):
			return changed
		case err != nil && !errors.Is(err, unix.ENOBUFS) && !errors.Is(err, unix.EINTR):
			return true
		}
		changed = true
	}
}

// list asks for the addresses of all devices, and for what else the local routing table delivers here (ip route add local …): its
// routes without a preferred source, which who sends there has as its own address. A list during which something changes is an error.
func (o *OwnAddresses) list() error {
	o.addrs, o.nets = map[netip.Addr]bool{}, nil
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		addrs, err := o.handle.AddrList(nil, family)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			addr, _ := netip.AddrFromSlice(a.IP)
			o.addrs[addr] = true
		}
		routes, err := o.handle.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		for _, r := range routes {
			if r.Src == nil {
				o.add(r.Dst)
			}
		}
	}
	return nil
}

func (o *OwnAddresses) add(n *net.IPNet) {
	addr, _ := netip.AddrFromSlice(n.IP)
	if bits, size := n.Mask.Size(); bits < size {
		o.nets = append(o.nets, netip.PrefixFrom(addr, bits))
	} else {
		o.addrs[addr] = true
	}
}
