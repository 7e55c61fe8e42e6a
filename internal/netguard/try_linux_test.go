package netguard

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// What a child can be ordered to try. Each says what came of it: the name of an error, or what was heard from whom.
var tries = map[string]func(args []string) (string, error){
	"tcp":             tryTCP,
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
	"mptcp":           tryMPTCP,
	"connect often":   tryConnectOften,
	"begin":           tryBegin,
	"hold":            tryHold,
	"connect again":   tryConnectAgain,
	"flood":           tryFlood,
	"ask on":          tryAskOn,
}

// patient is how long a child waits for an answer; one that isn't to come is waited for "briefly".
var patient = 30 * time.Second

func try(order []string) (string, error) {
	if order[0] == "briefly" {
		patient, order = 700*time.Millisecond, order[1:]
	}
	if order[0] == "on one processor" {
		if err := onOneProcessor(); err != nil {
			return "", err
		}
		order = order[1:]
	}
	if order[0] == "say who" { // does what follows
		said, err := try(order[1:])
		name, _ := os.ReadFile("/proc/thread-self/comm")
		return fmt.Sprintf("%d of %d and %q: %s", os.Getpid(), os.Getuid(), trimmed(name), said), err
	}
	f := tries[order[0]]
	if f == nil {
		return "", fmt.Errorf("nobody knows how to %q", order[0])
	}
	said, err := f(order[1:])
	if name := errName(err); name != "" {
		return name, nil
	}
	return said, err
}

// onOneProcessor keeps this thread on the first processor that it may use.
func onOneProcessor() error {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		return err
	}
	first := 0
	for !may.IsSet(first) {
		first++
	}
	one.Set(first)
	return unix.SchedSetaffinity(0, &one)
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
	return "nobody"
}

// open makes a socket that waits for nothing for ever.
func open(family, kind int) (int, error) {
	fd, err := unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		patience(fd)
	}
	return fd, err
}

func patience(fd int) {
	tv := unix.NsecToTimeval(int64(patient))
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &tv)
}

// hearTCP says what was heard on a connection, and what its other end is called.
func hearTCP(fd int) (string, error) {
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return "", err
	}
	var b [256]byte
	n, err := unix.Read(fd, b[:])
	n = max(n, 0)
	return trimmed(b[:n]) + ", peer " + text(peer), err
}

func tryTCP(args []string) (string, error) {
	family, sa := at(args[0])
	fd, err := open(family, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	return hearTCP(fd)
}

func tryMPTCP(args []string) (string, error) {
	family, sa := at(args[0])
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_MPTCP)
	if err != nil {
		return "", err
	}
	patience(fd)
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	return hearTCP(fd)
}

func hearUDP(fd int) (string, error) {
	var b [256]byte
	n, from, err := unix.Recvfrom(fd, b[:], 0)
	if err != nil {
		return "", err
	}
	return trimmed(b[:n]) + ", from " + text(from), nil
}

// trySend sends a datagram to each address from one socket.
func trySend(args []string) (string, error) {
	family, _ := at(args[0])
	fd, err := open(family, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	var all []string
	for _, a := range args {
		_, sa := at(a)
		if err := unix.Sendto(fd, []byte("hello"), 0, sa); err != nil {
			return "", err
		}
		said, err := hearUDP(fd)
		if err != nil {
			return "", err
		}
		all = append(all, said)
	}
	return strings.Join(all, "; "), nil
}

// tryPing has an address answer an echo request with what was in it; the port doesn't count.
func tryPing(args []string) (string, error) {
	family, sa := at(args[0])
	protocol, request := unix.IPPROTO_ICMP, byte(8)
	if family == unix.AF_INET6 {
		protocol, request = unix.IPPROTO_ICMPV6, 128
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, protocol)
	if err != nil {
		return "", err
	}
	patience(fd)
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, append([]byte{request, 0, 0, 0, 0, 0, 0, 0}, "hello"...)); err != nil {
		return "", err
	}
	var b [64]byte
	n, err := unix.Read(fd, b[:])
	return string(b[min(8, max(0, n)):max(0, n)]), err
}

func tryUDP(args []string) (string, error) {
	family, sa := at(args[0])
	fd, err := open(family, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	peer, err := unix.Getpeername(fd)
	if err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, []byte("hello")); err != nil {
		return "", err
	}
	said, err := hearUDP(fd)
	return said + ", peer " + text(peer), err
}

// trySendElsewhere sends from a socket that is connected to the first address to the second one.
func trySendElsewhere(args []string) (string, error) {
	family, sa := at(args[0])
	fd, err := open(family, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	_, sa = at(args[1])
	if err := unix.Sendto(fd, []byte("hello"), 0, sa); err != nil {
		return "", err
	}
	return "sent", nil
}

// message is struct mmsghdr.
type message struct {
	head unix.Msghdr
	n    uint32
	_    uint32
}

// trySendMany sends datagrams to all addresses with one call.
func trySendMany(args []string) (string, error) {
	fd, err := open(unix.AF_INET, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	word := []byte("hello")
	var messages []message
	for _, a := range args {
		to := raw4(a, unix.AF_INET)
		part := &unix.Iovec{Base: &word[0]}
		part.SetLen(len(word))
		m := message{head: unix.Msghdr{Name: (*byte)(unsafe.Pointer(to)), Namelen: unix.SizeofSockaddrInet4, Iov: part}}
		m.head.SetIovlen(1)
		messages = append(messages, m)
	}
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&messages[0])), uintptr(len(messages)), 0, 0, 0)
	if errno != 0 {
		return "", errno
	}
	return fmt.Sprintf("sent %d", n), nil
}

func raw4(a string, family uint16) *unix.RawSockaddrInet4 {
	to := netip.MustParseAddrPort(a)
	return &unix.RawSockaddrInet4{Family: family, Port: network(to.Port()), Addr: to.Addr().As4()}
}

// trySendUnspec sends with an address of no family, which IPv4 takes for its own.
func trySendUnspec(args []string) (string, error) {
	fd, err := open(unix.AF_INET, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	word := []byte("hello")
	_, _, errno := unix.Syscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&word[0])), uintptr(len(word)), 0,
		uintptr(unsafe.Pointer(raw4(args[0], unix.AF_UNSPEC))), unix.SizeofSockaddrInet4)
	if errno != 0 {
		return "", errno
	}
	return hearUDP(fd)
}

// tryReconnect connects to the first address, dissolves that and connects to the second.
func tryReconnect(args []string) (string, error) {
	kind := map[string]int{"tcp": unix.SOCK_STREAM, "udp": unix.SOCK_DGRAM}[args[0]]
	family, sa := at(args[1])
	fd, err := open(family, kind)
	if err != nil {
		return "", err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return "", fmt.Errorf("the first time: %w", err)
	}
	if err := dissolve(fd); err != nil {
		return "", err
	}
	_, sa = at(args[2])
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	if kind == unix.SOCK_DGRAM { // to connect sends nothing
		_, err = unix.Write(fd, []byte("hello"))
	}
	return "connected", err
}

// tryFastOpen connects with the first data.
func tryFastOpen(args []string) (string, error) {
	family, sa := at(args[0])
	fd, err := open(family, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	if err := unix.Sendto(fd, []byte("hello"), unix.MSG_FASTOPEN, sa); err != nil {
		return "", err
	}
	return hearTCP(fd)
}

func tryFastOpenLater(args []string) (string, error) {
	family, sa := at(args[0])
	fd, err := open(family, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_FASTOPEN_CONNECT, 1); err != nil {
		return "", err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, []byte("hello")); err != nil {
		return "", err
	}
	return hearTCP(fd)
}

// tryShort connects with too few bytes of an address.
func tryShort(args []string) (string, error) {
	fd, err := open(unix.AF_INET, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(raw4(args[0], unix.AF_INET))), uintptr(n)); errno != 0 {
		return "", errno
	}
	return "connected", nil
}

func numbers(args []string) (n []int, err error) {
	for _, a := range args {
		i, err := strconv.Atoi(a)
		if err != nil {
			return nil, err
		}
		n = append(n, i)
	}
	return n, nil
}

func trySocket(args []string) (string, error) {
	n, err := numbers(args)
	if err != nil {
		return "", err
	}
	if _, err := unix.Socket(n[0], n[1], n[2]); err != nil {
		return "", err
	}
	return "made", nil
}

func tryBind(args []string) (string, error) {
	kind := map[string]int{"tcp": unix.SOCK_STREAM, "udp": unix.SOCK_DGRAM}[args[0]]
	family, sa := at(args[1])
	fd, err := open(family, kind)
	if err != nil {
		return "", err
	}
	if err := unix.Bind(fd, sa); err != nil {
		return "", err
	}
	return "bound", nil
}

// tryListen listens where it was told to, or on any port, without saying where.
func tryListen(args []string) (string, error) {
	_, said, err := listener(args)
	return said, err
}

func listener(args []string) (int, string, error) {
	family, sa := unix.AF_INET, unix.Sockaddr(nil)
	if len(args) > 0 {
		family, sa = at(args[0])
	}
	fd, err := open(family, unix.SOCK_STREAM)
	if err != nil {
		return 0, "", err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil { // for one that was just closed
		return 0, "", err
	}
	if sa != nil {
		if err := unix.Bind(fd, sa); err != nil {
			return 0, "", err
		}
	}
	if err := unix.Listen(fd, 1); err != nil {
		return 0, "", err
	}
	return fd, "listens", nil
}

// tryWaitFor listens, tells where through descriptor 3, and waits for a connection, or for a datagram, until its input ends.
func tryWaitFor(args []string) (string, error) {
	if args[0] == "udp" {
		family, sa := at(args[1])
		fd, err := open(family, unix.SOCK_DGRAM)
		if err != nil {
			return "", err
		}
		if err := unix.Bind(fd, sa); err != nil {
			return "", err
		}
		return reported(fd, func() (string, error) { return hearUDP(fd) })
	}
	fd, _, err := listener(args[1:])
	if err != nil {
		return "", err
	}
	return reported(fd, func() (string, error) {
		_, _, err := unix.Accept(fd)
		return "accepted", err
	})
}

func reported(fd int, wait func() (string, error)) (string, error) {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return "", err
	}
	fmt.Fprintln(os.NewFile(3, "report"), text(sa))
	_, err = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}, {Fd: 0, Events: unix.POLLIN}}, -1)
	if err := errors.Join(err, unix.SetNonblock(fd, true)); err != nil {
		return "", err
	}
	return wait()
}

// tryReuse binds to a port that somebody has, with all that can be said for it.
func tryReuse(args []string) (string, error) {
	family, sa := at(args[1])
	fd, err := open(family, map[string]int{"tcp": unix.SOCK_STREAM, "udp": unix.SOCK_DGRAM}[args[0]])
	if err != nil {
		return "", err
	}
	for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1); err != nil {
			return "", err
		}
	}
	if err := unix.Bind(fd, sa); err != nil {
		return "", err
	}
	return "bound", nil
}

func tryMark(args []string) (string, error) {
	family, sa := at(args[0])
	fd, err := open(family, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1); err != nil {
		return "", fmt.Errorf("mark: %w", err)
	}
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	return hearTCP(fd)
}

func tryDevice(args []string) (string, error) {
	family, sa := at(args[1])
	fd, err := open(family, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	if err := unix.BindToDevice(fd, args[0]); err != nil {
		return "", err
	}
	if err := unix.Connect(fd, sa); err != nil {
		return "", err
	}
	return hearTCP(fd)
}

// tryOption has a socket send by a device, by an option of a level.
func tryOption(args []string) (string, error) {
	n, err := numbers(args[:2])
	if err != nil {
		return "", err
	}
	device, err := net.InterfaceByName(args[2])
	if err != nil {
		return "", err
	}
	fd, err := open(unix.AF_INET6, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	index := binary.NativeEndian.AppendUint32(nil, uint32(device.Index))
	value := index
	switch level, option := n[0], n[1]; {
	case level == unix.SOL_SOCKET && option == unix.SO_BINDTODEVICE:
		value = []byte(args[2])
	case option == unix.IPV6_PKTINFO && level == unix.SOL_IPV6:
		value = append(make([]byte, 16), index...)
	case level != unix.SOL_SOCKET: // in network order
		slices.Reverse(value)
	}
	return "set", unix.SetsockoptString(fd, n[0], n[1], string(value))
}

// tryLongOption sets one that is longer than what a program gets to see.
func tryLongOption([]string) (string, error) {
	fd, err := open(unix.AF_INET6, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	long := make([]byte, 3*os.Getpagesize())
	long[0] = 1
	return "set", unix.SetsockoptString(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, string(long))
}

// trySourceRoute sends a datagram to the second address by way of the first: that's whom it reaches first.
func trySourceRoute(args []string) (string, error) {
	fd, err := open(unix.AF_INET, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	hop := netip.MustParseAddrPort(args[0]).Addr().As4()
	options := []byte{131 /* IPOPT_LSRR */, 7, 4, hop[0], hop[1], hop[2], hop[3], 0}
	if err := unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string(options)); err != nil {
		return "", fmt.Errorf("set the source route: %w", err)
	}
	_, sa := at(args[1])
	if err := unix.Sendto(fd, []byte("hello"), 0, sa); err != nil {
		return "", err
	}
	return "sent", nil
}

// tryRoutingHeader is the same for IPv6, with segments (RFC 8754, type 4).
func tryRoutingHeader(args []string) (string, error) {
	fd, err := open(unix.AF_INET6, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	hop := netip.MustParseAddrPort(args[0]).Addr().As16()
	last := netip.MustParseAddrPort(args[1]).Addr().As16()
	header := slices.Concat([]byte{0, 4, 4, 1, 1, 0, 0, 0}, last[:], hop[:])
	if err := unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, string(header)); err != nil {
		return "", fmt.Errorf("set the routing header: %w", err)
	}
	_, sa := at(args[1])
	if err := unix.Sendto(fd, []byte("hello"), 0, sa); err != nil {
		return "", err
	}
	return "sent", nil
}

// tryRaw sends a datagram that it makes itself.
func tryRaw(args []string) (string, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP)
	if err != nil {
		return "", err
	}
	to := netip.MustParseAddrPort(args[0])
	port := to.Port()
	packet := []byte{0x30, 0x39, byte(port >> 8), byte(port), 0, 13, 0, 0, 'h', 'e', 'l', 'l', 'o'}
	if err := unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()}); err != nil {
		return "", err
	}
	return "sent", nil
}

// tryHandOut makes a socket and gives it away, through descriptor 3.
func tryHandOut([]string) (string, error) {
	fd, err := open(unix.AF_INET, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	return "handed out", unix.Sendmsg(3, []byte("x"), unix.UnixRights(fd), nil, 0)
}

// tryBegin begins a session in the cgroup that is descriptor 3, says so through descriptor 4, and waits to be killed.
func tryBegin(args []string) (string, error) {
	layer := policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{tcp(args[0], 8001)}}
	c, err := policy.Compile(&policy.Source{Name: "test", Workspace: "/", Home: "/", Path: "/bin", Layers: []policy.SourceLayer{layer}}, tree{})
	if err != nil {
		return "", err
	}
	img, err := NewImage(c, 1)
	if err != nil {
		return "", err
	}
	s, err := Load()
	if err != nil {
		return "", err
	}
	if err := s.Begin(42, 3, img, Egress{}); err != nil {
		return "", err
	}
	if err := s.Keep([]byte("for the next")); err != nil {
		return "", err
	}
	fmt.Fprintln(os.NewFile(4, "report"), "begun")
	time.Sleep(time.Hour)
	return "", nil
}

// tryInherited connects descriptor 3, a socket that somebody else made.
func tryInherited(args []string) (string, error) {
	patience(3)
	_, sa := at(args[0])
	if err := unix.Connect(3, sa); err != nil {
		return "", err
	}
	return hearTCP(3)
}

// tryEgress is egress: it asks where a connection was going, twice, and permits an address. Descriptors 3 and 4 are its maps.
func tryEgress(args []string) (string, error) {
	k := NewKernel(3, 4)
	client, listener := netip.MustParseAddrPort(args[0]), netip.MustParseAddrPort(args[1])
	to, _, err := k.Original(client, listener)
	if err != nil {
		return err.Error(), nil
	}
	if _, _, err := k.Original(client, listener); err == nil {
		return "told twice", nil
	}
	if err := k.Permit("tcp", netip.MustParseAddrPort(args[2]), time.Now().Add(time.Minute), policy.Verdict{}); err != nil {
		return err.Error(), nil
	}
	return "was going to " + to.String(), nil
}

// tryHold sends datagrams from one socket, waiting for a line on its input before each.
func tryHold(args []string) (string, error) {
	family, sa := at(args[1])
	fd, err := open(family, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	if args[0] == "connected" {
		if err := unix.Connect(fd, sa); err != nil {
			return "", err
		}
		sa = nil
	}
	var all []string
	for {
		if sa == nil {
			_, err = unix.Write(fd, []byte("hello"))
		} else {
			err = unix.Sendto(fd, []byte("hello"), 0, sa)
		}
		said := errName(err)
		if err == nil {
			if _, err := hearUDP(fd); err != nil {
				said = errName(err)
			} else {
				said = "heard"
			}
		}
		all = append(all, said)
		fmt.Fprintln(os.NewFile(3, "report"), said)
		var b [1]byte
		if n, _ := os.Stdin.Read(b[:]); n == 0 {
			return strings.Join(all, ", "), nil
		}
	}
}

// tryConnectAgain connects one socket, and dissolves that, waiting for a line on its input before each further time.
func tryConnectAgain(args []string) (string, error) {
	family, sa := at(args[0])
	fd, err := open(family, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	for {
		said := "connected"
		if err := unix.Connect(fd, sa); err != nil {
			said = errName(err)
		}
		fmt.Fprintln(os.NewFile(3, "report"), said)
		var b [1]byte
		if n, _ := os.Stdin.Read(b[:]); n == 0 {
			return said, nil
		}
		if err := dissolve(fd); err != nil {
			return "", err
		}
	}
}

// dissolve has a socket be connected no more.
func dissolve(fd int) error {
	none := unix.RawSockaddrInet6{Family: unix.AF_UNSPEC}
	if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none)); errno != 0 {
		return errno
	}
	return nil
}

// tryFlood is refused as often as it's told to.
func tryFlood(args []string) (string, error) {
	n, err := numbers(args[1:])
	if err != nil {
		return "", err
	}
	_, sa := at(args[0])
	fd, err := open(unix.AF_INET, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	for range n[0] {
		if err := unix.Sendto(fd, []byte("hello"), 0, sa); err != unix.EACCES {
			return fmt.Sprint("not refused: ", err), nil
		}
	}
	return "refused", nil
}

// What a turn is: what is measured, and what goes before.
const turn, warm = 20, 5

// tryConnectOften is how long it takes to connect, the median of so many times. Another child does so as well, by turns: whoever reads a
// byte from the third descriptor has its turn, and the other one gets it by the fourth.
func tryConnectOften(args []string) (string, error) {
	n, err := numbers(args[1:])
	if err != nil {
		return "", err
	}
	family, sa := at(args[0])
	took := make([]time.Duration, 0, n[0])
	for len(took) < n[0] {
		if n, err := unix.Read(3, make([]byte, 1)); n != 1 {
			return "", fmt.Errorf("the other one has gone: %v", err)
		}
		for i := range turn + warm {
			fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return "", err
			}
			began := time.Now()
			err = unix.Connect(fd, sa)
			if i >= warm {
				took = append(took, time.Since(began))
			}
			if err = errors.Join(err, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}), unix.Close(fd)); err != nil {
				return "", err
			}
		}
		_, _ = unix.Write(4, make([]byte, 1)) // who has had its last turn isn't there any more
	}
	slices.Sort(took)
	return strconv.Itoa(int(took[len(took)/2])), nil
}

// tryURing connects through io_uring.
func tryURing(args []string) (string, error) {
	fd, err := open(unix.AF_INET, unix.SOCK_STREAM)
	if err != nil {
		return "", err
	}
	to := raw4(args[0], unix.AF_INET)
	result, err := submit(ringEntry{opcode: 16 /* IORING_OP_CONNECT */, fd: int32(fd), address: uint64(uintptr(unsafe.Pointer(to))), offset: unix.SizeofSockaddrInet4})
	if err != nil {
		return "", err
	}
	if result < 0 {
		return "", unix.Errno(-result)
	}
	return hearTCP(fd)
}

// ringEntry is struct io_uring_sqe, ringParams struct io_uring_params.
type ringEntry struct {
	opcode, flags uint8
	priority      uint16
	fd            int32
	offset        uint64
	address       uint64
	length        uint32
	rest          [9]uint32
}

type ringParams struct {
	entries, completions, flags, cpu, idle, features, worker uint32
	_                                                        [3]uint32
	submission                                               struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	completion struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// submit does one thing through an io_uring of its own.
func submit(e ringEntry) (int32, error) {
	var p ringParams
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return 0, errno
	}
	mem := func(offset int64, size int) ([]byte, error) {
		return unix.Mmap(int(ring), offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	sq, err := mem(0, int(p.submission.array)+4)
	if err != nil {
		return 0, err
	}
	cq, err := mem(0x8000000, int(p.completion.cqes)+16*int(p.completions))
	if err != nil {
		return 0, err
	}
	entries, err := mem(0x10000000, int(unsafe.Sizeof(e)))
	if err != nil {
		return 0, err
	}
	*(*ringEntry)(unsafe.Pointer(&entries[0])) = e
	*(*uint32)(unsafe.Pointer(&sq[p.submission.array])) = 0
	*(*uint32)(unsafe.Pointer(&sq[p.submission.tail])) = 1
	if _, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, 1 /* IORING_ENTER_GETEVENTS */, 0, 0); errno != 0 {
		return 0, errno
	}
	return *(*int32)(unsafe.Pointer(&cq[p.completion.cqes+8])), nil
}
