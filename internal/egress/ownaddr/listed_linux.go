package ownaddr

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// listTimeout bounds the kernel's answer.
const listTimeout = 10 * time.Second

// Listed are the addresses of this network namespace. They are listed at the start and after each change. While listing fails, every address counts as own.
type Listed struct {
	mu      sync.Mutex
	changes *nl.NetlinkSocket
	handle  *netlink.Handle
	listed  bool
	addrs   map[netip.Addr]bool
	nets    []netip.Prefix
}

// List lists the addresses. It opens all sockets that later lists need, so that these need no privilege and no socket.
func List() (_ *Listed, err error) {
	o := &Listed{}
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
	if err = errors.Join(o.handle.SetStrictCheck(true), o.handle.SetSocketTimeout(listTimeout)); err != nil {
		return nil, err
	}
	if err = o.list(); err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
		return nil, err
	}
	o.listed = err == nil
	return o, nil
}

// Close closes the sockets. Has must not be called afterwards.
func (o *Listed) Close() {
	if o.changes != nil {
		o.changes.Close()
	}
	if o.handle != nil {
		o.handle.Close()
	}
}

// Has reports whether an address is the machine's own, or whether that is unknown.
func (o *Listed) Has(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changed() || !o.listed {
		o.listed = o.list() == nil
	}
	return !o.listed || o.addrs[addr] || slices.ContainsFunc(o.nets, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// changed reads the kernel's notifications. The kernel sends them before the address is usable (__inet_insert_ifa, __ipv6_ifa_notify). A
// lost notification (ENOBUFS) counts as a change, and so does every call after the subscription fails.
func (o *Listed) changed() (changed bool) {
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

// list lists the addresses of all devices, and the rest of the local routing table (ip route add local …): routes without a preferred
// source, which a sender uses as its own address. A change during the list is an error.
func (o *Listed) list() error {
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

func (o *Listed) add(n *net.IPNet) {
	addr, _ := netip.AddrFromSlice(n.IP)
	if bits, size := n.Mask.Size(); bits < size {
		o.nets = append(o.nets, netip.PrefixFrom(addr, bits))
	} else {
		o.addrs[addr] = true
	}
}
