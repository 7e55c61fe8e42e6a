package cgroupsock

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The attempts of a child. Each returns its result: what it received from which peer; on failure, the name of the error.
var tries = map[string]func(args []string) string{
	"tcp":             func(args []string) string { return receiveFrom(socket(args[0], unix.SOCK_STREAM, 0)) },
	"mptcp":           func(args []string) string { return receiveFrom(socket(args[0], unix.SOCK_STREAM, unix.IPPROTO_MPTCP)) },
	"send":            trySend,
	"ping":            tryPing,
	"udp":             tryUDP,
	"send elsewhere":  trySendElsewhere,
	"send many":       trySendMany,
	"send unspec":     trySendUnspec,
	"reconnect":       tryReconnect,
	"fast open":       tryFastOpen,
	"fast open later": tryFastOpenLater,
	"short":           tryShort,
	"socket":          trySocket,
	"bind":            tryBind,
	"listen":          tryListen,
	"wait for":        tryWaitFor,
	"keep open":       tryKeepOpen,
	"reuse":           tryReuse,
	"mark":            tryMark,
	"device":          tryDevice,
	"option":          tryOption,
	"long option":     tryLongOption,
	"race":            tryRace,
	"bulk":            tryBulk,
	"hop by hop":      tryHopByHop,
	"uring":           tryURing,
	"source route":    trySourceRoute,
	"routing header":  tryRoutingHeader,
	"raw":             tryRaw,
	"inherited":       tryInherited,
	"egress":          tryEgress,
	"hand out":        tryHandOut,
	"connect often":   tryConnectOften,
	"begin":           tryBegin,
	"hold":            tryHold,
	"connect again":   tryConnectAgain,
	"flood":           tryFlood,
}

// patience is how long a child waits for an answer; "briefly" shortens it where none is expected.
var patience = 30 * time.Second

// failure ends a try.
type failure struct{ error }

func try(order []string) (output string, err error) {
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			if output = errName(f.error); output == "" {
				err = f.error
			}
		default:
			panic(f)
		}
	}()
	switch order[0] {
	case "briefly":
		patience = 300 * time.Millisecond
		return try(order[1:])
	case "on one processor":
		onOneProcessor()
		return try(order[1:])
	case "say who": // does what follows
		output, err := try(order[1:])
		name, _ := os.ReadFile("/proc/thread-self/comm")
		return fmt.Sprintf("%d of %d and %q: %s", os.Getpid(), os.Getuid(), trimmed(name), output), err
	}
	f := tries[order[0]]
	if f == nil {
		return "", fmt.Errorf("unknown attempt %q", order[0])
	}
	return f(order[1:]), nil
}

// ok goes on where there's no error.
func ok(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// called is ok for what package unix has no function for.
func called(errno unix.Errno) {
	if errno != 0 {
		ok(errno)
	}
}

// got is a result, without an error.
func got[T any](result T, err error) T {
	ok(err)
	return result
}

// sure fails the test on an error of the preparation.
func sure(what string, err error) {
	if err != nil {
		ok(fmt.Errorf("%s: %w", what, err))
	}
}

// onOneProcessor pins this thread to the first processor that it may use.
func onOneProcessor() {
	var may, one unix.CPUSet
	sure("find the processors", unix.SchedGetaffinity(0, &may))
	first := 0
	for !may.IsSet(first) {
		first++
	}
	one.Set(first)
	sure("stay on one", unix.SchedSetaffinity(0, &one))
}

func errName(err error) string {
	if errno, ok := err.(unix.Errno); ok {
		return unix.ErrnoName(errno)
	}
	return ""
}

// at is an address as a socket has it, and the family of that: "6 ADDRESS:PORT" is an IPv4 address for an IPv6 socket.
func at(s string) (int, unix.Sockaddr) {
	s, mapped := strings.CutPrefix(s, "6 ")
	a := netip.MustParseAddrPort(s)
	if a.Addr().Is4() && !mapped {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

func text(sa unix.Sockaddr) string {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port)).String()
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port)).String()
	}
	return "no peer"
}

// open makes a socket that waits for nothing for ever.
func open(family, kind, protocol int) int {
	fd := got(unix.Socket(family, kind|unix.SOCK_CLOEXEC, protocol))
	setReceiveTimeout(fd)
	return fd
}

// socket is one for an address, which it returns as a socket has it.
func socket(to string, kind, protocol int) (int, unix.Sockaddr) {
	family, sa := at(to)
	return open(family, kind, protocol), sa
}

// kinds are what kinds of sockets are ordered by.
var kinds = map[string]int{"tcp": unix.SOCK_STREAM, "udp": unix.SOCK_DGRAM}

func setReceiveTimeout(fd int) {
	tv := unix.NsecToTimeval(int64(patience))
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv)
}

// receiveFrom connects, and returns what it received.
func receiveFrom(fd int, to unix.Sockaddr) string {
	ok(unix.Connect(fd, to))
	return receiveTCP(fd)
}

// receiveTCP returns what it received on a connection, and the peer's address.
func receiveTCP(fd int) string {
	peer := got(unix.Getpeername(fd))
	var b [256]byte
	n := got(unix.Read(fd, b[:]))
	return trimmed(b[:n]) + ", peer " + text(peer)
}

func receiveUDP(fd int) string {
	var b [256]byte
	n, from, err := unix.Recvfrom(fd, b[:], 0)
	ok(err)
	return trimmed(b[:n]) + ", from " + text(from)
}

// trySend sends a datagram to each address from one socket.
func trySend(args []string) string {
	fd, _ := socket(args[0], unix.SOCK_DGRAM, 0)
	var all []string
	for _, a := range args {
		_, sa := at(a)
		ok(unix.Sendto(fd, []byte("hello"), 0, sa))
		all = append(all, receiveUDP(fd))
	}
	return strings.Join(all, "; ")
}

// tryPing has an address answer an echo request with what was in it; the port doesn't count.
func tryPing(args []string) string {
	protocol, request := unix.IPPROTO_ICMP, byte(8)
	if family, _ := at(args[0]); family == unix.AF_INET6 {
		protocol, request = unix.IPPROTO_ICMPV6, 128
	}
	fd, sa := socket(args[0], unix.SOCK_DGRAM, protocol)
	ok(unix.Connect(fd, sa))
	got(unix.Write(fd, append([]byte{request, 0, 0, 0, 0, 0, 0, 0}, "hello"...)))
	var b [64]byte
	n := got(unix.Read(fd, b[:]))
	return string(b[min(8, n):n])
}

func tryUDP(args []string) string {
	fd, sa := socket(args[0], unix.SOCK_DGRAM, 0)
	ok(unix.Connect(fd, sa))
	peer := got(unix.Getpeername(fd))
	got(unix.Write(fd, []byte("hello")))
	return receiveUDP(fd) + ", peer " + text(peer)
}

// trySendElsewhere sends from a socket that is connected to the first address to the second one.
func trySendElsewhere(args []string) string {
	fd, sa := socket(args[0], unix.SOCK_DGRAM, 0)
	ok(unix.Connect(fd, sa))
	_, sa = at(args[1])
	ok(unix.Sendto(fd, []byte("hello"), 0, sa))
	return "sent"
}

// message is struct mmsghdr.
type message struct {
	head unix.Msghdr
	n    uint32
	_    uint32
}

// trySendMany sends datagrams to all addresses with one call.
func trySendMany(args []string) string {
	fd := open(unix.AF_INET, unix.SOCK_DGRAM, 0)
	word := []byte("hello")
	var messages []message
	for _, a := range args {
		part := &unix.Iovec{Base: &word[0]}
		part.SetLen(len(word))
		m := message{head: unix.Msghdr{Name: (*byte)(unsafe.Pointer(raw4(a, unix.AF_INET))), Namelen: unix.SizeofSockaddrInet4, Iov: part}}
		m.head.SetIovlen(1)
		messages = append(messages, m)
	}
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), 0, 0, 0)
	called(errno)
	return fmt.Sprintf("sent %d", n)
}

func raw4(a string, family uint16) *unix.RawSockaddrInet4 {
	to := netip.MustParseAddrPort(a)
	return &unix.RawSockaddrInet4{Family: family, Port: networkOrder(to.Port()), Addr: to.Addr().As4()}
}

// trySendUnspec sends with AF_UNSPEC, which IPv4 treats as AF_INET.
func trySendUnspec(args []string) string {
	fd := open(unix.AF_INET, unix.SOCK_DGRAM, 0)
	word := []byte("hello")
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&word[0])), uintptr(len(word)), 0,
		uintptr(unsafe.Pointer(raw4(args[0], unix.AF_UNSPEC))), unix.SizeofSockaddrInet4)
	called(errno)
	return receiveUDP(fd)
}

// tryReconnect connects to the first address, dissolves that and connects to the second.
func tryReconnect(args []string) string {
	fd, sa := socket(args[1], kinds[args[0]], 0)
	sure("the first time", unix.Connect(fd, sa))
	dissolve(fd)
	_, sa = at(args[2])
	ok(unix.Connect(fd, sa))
	if args[0] == "udp" { // to connect sends nothing
		got(unix.Write(fd, []byte("hello")))
	}
	return "connected"
}

// tryFastOpen connects with the first data.
func tryFastOpen(args []string) string {
	fd, sa := socket(args[0], unix.SOCK_STREAM, 0)
	ok(unix.Sendto(fd, []byte("hello"), unix.MSG_FASTOPEN, sa))
	return receiveTCP(fd)
}

func tryFastOpenLater(args []string) string {
	fd, sa := socket(args[0], unix.SOCK_STREAM, 0)
	ok(unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1))
	ok(unix.Connect(fd, sa))
	got(unix.Write(fd, []byte("hello")))
	return receiveTCP(fd)
}

// tryShort connects with too few bytes of an address.
func tryShort(args []string) string {
	fd := open(unix.AF_INET, unix.SOCK_STREAM, 0)
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(raw4(args[0], unix.AF_INET))), uintptr(number(args[1])))
	called(errno)
	return "connected"
}

func number(arg string) int { return got(strconv.Atoi(arg)) }

func trySocket(args []string) string {
	got(unix.Socket(number(args[0]), number(args[1]), number(args[2])))
	return "made"
}

func tryBind(args []string) string {
	fd, sa := socket(args[1], kinds[args[0]], 0)
	ok(unix.Bind(fd, sa))
	return "bound"
}

// tryListen listens at the given address, or on any port.
func tryListen(args []string) string {
	listener(args)
	return "listens"
}

func listener(args []string) (fd int) {
	family, sa := unix.AF_INET, unix.Sockaddr(nil)
	if len(args) > 0 {
		family, sa = at(args[0])
	}
	fd = open(family, unix.SOCK_STREAM, 0)
	ok(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)) // for one that was just closed
	if sa != nil {
		ok(unix.Bind(fd, sa))
	}
	ok(unix.Listen(fd, 1))
	return fd
}

// tryWaitFor listens, writes its address to descriptor 3, and waits for a connection, or for a datagram, until its input ends.
func tryWaitFor(args []string) string {
	if args[0] == "udp" {
		fd, sa := socket(args[1], unix.SOCK_DGRAM, 0)
		ok(unix.Bind(fd, sa))
		awaited(fd)
		return receiveUDP(fd)
	}
	fd := listener(args[1:])
	awaited(fd)
	_, _, err := unix.Accept(fd)
	ok(err)
	return "accepted"
}

func awaited(fd int) {
	fmt.Fprintln(os.NewFile(3, "report"), text(got(unix.Getsockname(fd))))
	got(unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: 0, Events: unix.POLLIN}}, -1))
	ok(unix.SetNonblock(fd, true))
}
