// Package nettest provides a network namespace for tests, and small servers in it.
package nettest

import (
	"errors"
	"net"
	"net/netip"
	"runtime"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// InNamespace runs f in a new network namespace, on a thread that exits afterwards.
func InNamespace(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		ns, err := netns.New()
		if err == nil {
			err = errors.Join(f(), ns.Close())
		}
		done <- err
	}()
	return <-done
}

// Loopback enables the loopback device of this network namespace, which must be the test's own, with more addresses.
func Loopback(addrs ...string) error { return Address("lo", addrs...) }

// Address enables a device with addresses that are usable at once. Without a prefix length, IPv6 has 128, and IPv4 that of its
// class.
func Address(device string, addrs ...string) error {
	d, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	errs := []error{netlink.LinkSetUp(d)}
	for _, text := range addrs {
		a, err := netlink.ParseIPNet(text)
		if err != nil {
			a = withLength(netip.MustParseAddr(text))
		}
		errs = append(errs, netlink.AddrAdd(d, &netlink.Addr{IPNet: a, Flags: unix.IFA_F_NODAD}))
	}
	return errors.Join(errs...)
}

func withLength(a netip.Addr) *net.IPNet {
	n := net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(128, 128)}
	if a.Is4() {
		n.Mask = n.IP.DefaultMask()
	}
	return &n
}

// LocalAddresses enables the loopback device of this network namespace, which must be the test's own, and routes addresses to it
// like those of other machines. For IPv4, it routes the whole network of the class. A listener on all addresses receives their
// connections.
func LocalAddresses(addrs ...string) error {
	errs := []error{Loopback()}
	for _, text := range addrs {
		n := withLength(netip.MustParseAddr(text))
		if n.IP.To4() == nil {
			errs = append(errs, netlink.RouteAdd(&netlink.Route{
				LinkIndex: 1, Dst: n, Src: net.IPv6loopback, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL,
			}))
			continue
		}
		for i, m := range n.Mask { // the last address but one, which the machine is to have in its stead
			n.IP[i] |= ^m
		}
		n.IP[3]--
		if err := Address("lo", n.String()); !errors.Is(err, unix.EEXIST) { // by one before
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
