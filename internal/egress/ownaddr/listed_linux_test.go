package ownaddr

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
)

// The machine's own addresses are those of its devices and those that its local routes deliver to it, at each moment. They are listed only
// after a change. While listing fails, every address counts as own.
func TestOwn(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	childtest.Must(t, nettest.InNamespace(func() error { return ownAddresses(t) }))
}

func ownAddresses(t *testing.T) error {
	if err := nettest.Loopback("93.184.215.1", "93.184.215.9", "2a00:1450::1"); err != nil {
		return err
	}
	o, err := List()
	if err != nil {
		return err
	}
	defer func() { o.Close() }()
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer nowhere.Close()
	route := func(text string) *netlink.Route {
		n, _ := netlink.ParseIPNet(text)
		return &netlink.Route{LinkIndex: 1, Dst: n, Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL, Scope: netlink.SCOPE_HOST}
	}
	n, _ := netlink.ParseIPNet("151.101.1.1/8")
	added := &netlink.Addr{IPNet: n}
	lo := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: 1}}
	is := map[string]bool{
		"93.184.215.1": true, "93.184.215.9": true, "127.0.0.1": true, "2a00:1450::1": true, "::1": true, "::ffff:93.184.215.1": true,
		"93.184.215.2": false, "151.101.1.1": false, "2a00:1450::2": false, "192.0.2.7": false, "2001:db8::7": false, "fe80::1%lo": false,
	}
	for _, step := range []struct {
		name    string
		do      func() error
		changes []string
	}{
		{name: "at first", do: func() error { return nil }},
		{"an address more", func() error { return netlink.AddrAdd(lo, added) }, []string{"151.101.1.1"}},
		{"one more of IPv6", func() error { return nettest.Loopback("2a00:1450::2") }, []string{"2a00:1450::2"}},
		{"an address less", func() error { return netlink.AddrDel(lo, added) }, []string{"151.101.1.1"}},
		{"a route", func() error { return netlink.RouteAdd(route("192.0.2.0/24")) }, []string{"192.0.2.7"}},
		{"one of IPv6", func() error { return netlink.RouteAdd(route("2001:db8::/64")) }, []string{"2001:db8::7"}},
		{"more changes than the kernel keeps", func() error {
			err := o.changes.SetReceiveBufferSize(1, false)
			for range 100 {
				err = errors.Join(err, netlink.AddrAdd(lo, added), netlink.AddrDel(lo, added))
			}
			return errors.Join(err, netlink.AddrAdd(lo, added))
		}, []string{"151.101.1.1"}},
		{"the subscription broken", func() error {
			return errors.Join(unix.Dup3(int(nowhere.Fd()), o.changes.GetFd(), unix.O_CLOEXEC), netlink.AddrDel(lo, added))
		}, []string{"151.101.1.1"}},
		{"the list broken", func() (err error) {
			o.Close()
			if o, err = List(); err != nil {
				return err
			}
			for late := true; late; late = o.changed() { // some notifications of earlier changes are late
				o.Has(netip.IPv6Loopback())
				time.Sleep(50 * time.Millisecond)
			}
			return replaceNetlink(int(nowhere.Fd()), o.changes.GetFd())
		}, nil},
		{"and a change", func() error { return netlink.AddrAdd(lo, added) }, []string{"93.184.215.2", "151.101.1.1", "fe80::1%lo"}},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		for _, addr := range step.changes {
			is[addr] = !is[addr]
		}
		for addr, want := range is {
			if got := o.Has(netip.MustParseAddr(addr)); got != want {
				t.Errorf("%s: %s: %v", step.name, addr, got)
			}
		}
	}
	return nil
}

// replaceNetlink replaces this process's netlink sockets by a file, except one.
func replaceNetlink(file, but int) error {
	var errs []error
	for fd := range 1024 {
		if domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && domain == unix.AF_NETLINK && fd != but {
			errs = append(errs, unix.Dup3(file, fd, unix.O_CLOEXEC))
		}
	}
	return errors.Join(errs...)
}
