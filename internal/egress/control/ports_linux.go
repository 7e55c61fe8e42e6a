package control

import (
	"errors"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
)

// OpenPorts opens the ports of egress on loopback. They stay open, so that connections wait for a restarted egress. Without IPv6 there are
// no IPv6 ports, and the BPF programs deny IPv6 connections that they would redirect.
func OpenPorts(o *message.Instructions) (ports cgroupsock.Egress, err error) {
	four, six := &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}, &unix.SockaddrInet6{Addr: netip.IPv6Loopback().As16()}
	for _, s := range []struct {
		family, kind int
		at           unix.Sockaddr
		port         *uint16
		list         *[]int
	}{
		{unix.AF_INET, unix.SOCK_STREAM, four, &ports.TCP4, &o.TCP},
		{unix.AF_INET, unix.SOCK_DGRAM, four, &ports.UDP4, &o.UDP},
		{unix.AF_INET6, unix.SOCK_STREAM, six, &ports.TCP6, &o.TCP},
		{unix.AF_INET6, unix.SOCK_DGRAM, six, &ports.UDP6, &o.UDP},
	} {
		fd, port, err := listenAt(s.family, s.kind, s.at)
		if s.family == unix.AF_INET6 && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL)) {
			continue
		}
		if err != nil {
			closePorts(o)
			return cgroupsock.Egress{}, err
		}
		*s.port, *s.list = port, append(*s.list, fd)
		ports.Sockets = append(ports.Sockets, fd)
	}
	return ports, nil
}

func listenAt(family, kind int, at unix.Sockaddr) (fd int, port uint16, err error) {
	if fd, err = unix.Socket(family, kind|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return -1, 0, os.NewSyscallError("socket", err)
	}
	err = os.NewSyscallError("bind", unix.Bind(fd, at))
	if err == nil && kind == unix.SOCK_STREAM {
		err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, 0, err
	}
	switch a := at.(type) {
	case *unix.SockaddrInet4:
		port = uint16(a.Port)
	case *unix.SockaddrInet6:
		port = uint16(a.Port)
	}
	return fd, port, nil
}

func closePorts(o *message.Instructions) {
	for _, fd := range slices.Concat(o.TCP, o.UDP) {
		_ = unix.Close(fd)
	}
	o.TCP, o.UDP = nil, nil
}

// EnterNamespace moves this thread into a network namespace; nil: it stays.
func EnterNamespace(namespace *os.File) error {
	if namespace == nil {
		return nil
	}
	return os.NewSyscallError("setns", unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET))
}
