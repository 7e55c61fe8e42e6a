// Package nettest gives tests a network of their own, and small servers in it.
package nettest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// patience is how long an address may take to be there.
const patience = 30 * time.Second

// Loopback brings up the loopback device of this network namespace, which is to be the test's own, with more addresses, each
// of an IPv4 class's length or alone for IPv6, and waits until they can be used.
func Loopback(addrs ...string) error {
	errs := []error{up("lo")}
	for i, text := range addrs {
		switch a := netip.MustParseAddr(text); {
		case a.Is4():
			errs = append(errs, address4(fmt.Sprintf("lo:%d", i+1), a))
		default:
			errs = append(errs, address6("lo", a), usable(a))
		}
	}
	return errors.Join(errs...)
}

// Others brings up the loopback device of this network namespace, which is to be the test's own, and has addresses lead here as if they
// were other machines'. For IPv4 all of their class's network does. What listens on all addresses is reached.
func Others(addrs ...string) error {
	errs := []error{up("lo")}
	for i, text := range addrs {
		switch a := netip.MustParseAddr(text); {
		case a.Is4():
			if err := address4(fmt.Sprintf("lo:%d", i+1), neighbour(a)); !errors.Is(err, unix.EEXIST) { // by one before
				errs = append(errs, err)
			}
		default:
			errs = append(errs, route6("lo", a))
		}
	}
	return errors.Join(errs...)
}

// neighbour is the last address of an address's network, which the machine is to have in its stead.
func neighbour(a netip.Addr) netip.Addr {
	b := a.As4()
	for i := 3; i > 2 || i > 1 && b[0] < 192 || i > 0 && b[0] < 128; i-- {
		b[i] = 254
	}
	return netip.AddrFrom4(b)
}

// Address brings a device up with an IPv4 address of its class's length.
func Address(device, addr string) error {
	return errors.Join(up(device), address4(device, netip.MustParseAddr(addr)))
}

// usable waits for an IPv6 address, which is there a moment after it was given.
func usable(a netip.Addr) error {
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, 0)))
		if err == nil {
			return l.Close()
		}
		if time.Now().After(end) {
			return err
		}
	}
}

func ioctl(family int, request uintptr, arg unsafe.Pointer) error {
	fd, err := unix.Socket(family, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

func up(device string) error {
	r, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return ioctl(unix.AF_INET, unix.SIOCSIFFLAGS, unsafe.Pointer(r))
}

func address4(device string, a netip.Addr) error {
	r, err := unix.NewIfreq(device)
	if err != nil {
		return err
	}
	if err := r.SetInet4Addr(a.AsSlice()); err != nil {
		return err
	}
	return ioctl(unix.AF_INET, unix.SIOCSIFADDR, unsafe.Pointer(r))
}

func address6(device string, a netip.Addr) error {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	r := struct { // struct in6_ifreq
		addr   [16]byte
		length uint32
		index  int32
	}{a.As16(), 128, int32(i.Index)}
	return ioctl(unix.AF_INET6, unix.SIOCSIFADDR, unsafe.Pointer(&r))
}

// route6 has what is for an address be delivered here.
func route6(device string, a netip.Addr) error {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return err
	}
	r := struct { // struct in6_rtmsg
		to, from, gateway    [16]byte
		kind                 uint32
		toLength, fromLength uint16
		metric               uint32
		info                 uint64
		flags                uint32
		index                int32
	}{to: a.As16(), kind: unix.RTN_LOCAL, toLength: 128, metric: 1, flags: unix.RTF_UP | unix.RTF_LOCAL, index: int32(i.Index)}
	return ioctl(unix.AF_INET6, unix.SIOCADDRT, unsafe.Pointer(&r))
}
