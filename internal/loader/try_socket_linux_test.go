package loader

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

func socket(family, typ, protocol int) func(*tryState) error {
	return func(*tryState) error { return closing(unix.Socket(family, typ, protocol)) }
}

// unixTo connects, or sends, to an address.
func unixTo(typ int, send bool, addr func(p *tryState) string) func(p *tryState) error {
	return func(p *tryState) error {
		fd, err := unix.Socket(unix.AF_UNIX, typ, 0)
		if err != nil {
			return fmt.Errorf("socket: %w", err)
		}
		defer unix.Close(fd)
		to := &unix.SockaddrUnix{Name: addr(p)}
		if send {
			return unix.Sendto(fd, []byte("x"), 0, to)
		}
		if err := unix.Connect(fd, to); err != nil || typ == unix.SOCK_STREAM {
			return err
		}
		_, err = unix.Write(fd, []byte("x"))
		return err
	}
}

func sockPath(name string) func(p *tryState) string {
	return func(p *tryState) string { return rel(p, name) }
}

func abstract(suffix string) func(p *tryState) string {
	return func(p *tryState) string { return "@" + p.Abstract + suffix }
}

var socketTries = []try{
	{"TCP", socket(unix.AF_INET, unix.SOCK_STREAM, 0), eacces, nil},
	{"TCP 6", socket(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP), eacces, nil},
	{"UDP", socket(unix.AF_INET, unix.SOCK_DGRAM, 0), eacces, nil},
	{"raw", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_TCP), eacces, nil},
	{"packet", socket(unix.AF_PACKET, unix.SOCK_RAW, 0), eacces, nil},
	{"audit", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT), eacces, nil},
	{"netfilter", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT), eacces, nil},
	{"route", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), nil, nil},
	{"unix", socket(unix.AF_UNIX, unix.SOCK_STREAM, 0), nil, nil},
	{"pair of streams", func(*tryState) error { return pair(unix.SOCK_STREAM) }, nil, nil},
	{"pair of datagrams", func(*tryState) error { return pair(unix.SOCK_DGRAM) }, nil, nil},
	{"pair of packets", func(*tryState) error { return pair(unix.SOCK_SEQPACKET) }, nil, nil},
	{"connect by path where updating is granted", unixTo(unix.SOCK_STREAM, false, sockPath("change/stream")), nil, nil},
	{"connect by path where reading is", unixTo(unix.SOCK_STREAM, false, sockPath("ro/stream")), eacces, nil},
	{"connect through a symlink", unixTo(unix.SOCK_STREAM, false, sockPath("change/to-stream")), eacces, nil},
	{"connect datagrams by path where updating is granted", unixTo(unix.SOCK_DGRAM, false, sockPath("change/dgram")), nil, nil},
	{"connect datagrams by path where reading is", unixTo(unix.SOCK_DGRAM, false, sockPath("ro/dgram")), eacces, nil},
	{"send by path where updating is granted", unixTo(unix.SOCK_DGRAM, true, sockPath("change/dgram")), nil, nil},
	{"send by path where reading is", unixTo(unix.SOCK_DGRAM, true, sockPath("ro/dgram")), eacces, nil},
	{"connect packets by path where reading is", unixTo(unix.SOCK_SEQPACKET, false, sockPath("ro/packet")), eacces, nil},
	{"connect to what was bound in another namespace", unixTo(unix.SOCK_STREAM, false, sockPath("change/elsewhere")), nil, nil},
	{"connect to what was bound in another namespace, where reading is", unixTo(unix.SOCK_STREAM, false, sockPath("ro/elsewhere")), eacces, nil},
	{"send datagrams, connected, to what was bound in another namespace", unixTo(unix.SOCK_DGRAM, false, sockPath("change/elsewhere-dgram")), nil, nil},
	{"connect to an outside process's abstract name", unixTo(unix.SOCK_STREAM, false, abstract("")), eacces, nil},
	{"send to an outside process's abstract name", unixTo(unix.SOCK_DGRAM, true, abstract("dgram")), eacces, nil},
	{"connect datagrams to an outside process's abstract name", unixTo(unix.SOCK_DGRAM, false, abstract("dgram")), eacces, nil},
	{"connect to one's own abstract name", func(p *tryState) error {
		l, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(l)
		name := "@" + p.Abstract + "own" + strconv.Itoa(os.Getpid())
		if err := unix.Bind(l, &unix.SockaddrUnix{Name: name}); err != nil {
			return err
		}
		if err := unix.Listen(l, 1); err != nil {
			return err
		}
		return unixTo(unix.SOCK_STREAM, false, func(*tryState) string { return name })(p)
	}, nil, nil},
}

func pair(typ int) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, typ, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	if _, err := unix.Write(fds[0], []byte("x")); err != nil {
		return err
	}
	_, err = unix.Read(fds[1], make([]byte, 1))
	return err
}
