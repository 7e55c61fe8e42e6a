package cgroupsock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// tryReuse binds to a port in use, with every option for sharing.
func tryReuse(args []string) string {
	fd, sa := socket(args[1], kinds[args[0]], 0)
	for _, option := range []int{unix.SO_REUSEADDR, unix.SO_REUSEPORT} {
		ok(unix.SetsockoptInt(fd, unix.SOL_SOCKET, option, 1))
	}
	ok(unix.Bind(fd, sa))
	return "bound"
}

func tryMark(args []string) string {
	fd, sa := socket(args[0], unix.SOCK_STREAM, 0)
	sure("mark", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, 1))
	return receiveFrom(fd, sa)
}

func tryDevice(args []string) string {
	fd, sa := socket(args[1], unix.SOCK_STREAM, 0)
	ok(unix.BindToDevice(fd, args[0]))
	return receiveFrom(fd, sa)
}

// tryOption has a socket send by a device, by an option of a level.
func tryOption(args []string) string {
	level, option, device := number(args[0]), number(args[1]), got(net.InterfaceByName(args[2]))
	index := binary.NativeEndian.AppendUint32(nil, uint32(device.Index))
	value := index
	switch {
	case level == unix.SOL_SOCKET && option == unix.SO_BINDTODEVICE:
		value = []byte(args[2])
	case option == unix.IPV6_PKTINFO && level == unix.SOL_IPV6:
		value = append(make([]byte, 16), index...)
	case level != unix.SOL_SOCKET: // in network order
		slices.Reverse(value)
	}
	ok(unix.SetsockoptString(open(unix.AF_INET6, unix.SOCK_DGRAM, 0), level, option, string(value)))
	return "set"
}

// tryLongOption sets one that is longer than what a program gets to see.
func tryLongOption([]string) string {
	long := make([]byte, 3*os.Getpagesize())
	long[0] = 1
	ok(unix.SetsockoptString(open(unix.AF_INET6, unix.SOCK_DGRAM, 0), unix.SOL_SOCKET, unix.SO_REUSEADDR, string(long)))
	return "set"
}

// trySourceRoute sends a datagram to the second address by way of the first: the first one gets it.
func trySourceRoute(args []string) string {
	fd, sa := socket(args[1], unix.SOCK_DGRAM, 0)
	hop := netip.MustParseAddrPort(args[0]).Addr().As4()
	options := []byte{131 /* IPOPT_LSRR */, 7, 4, hop[0], hop[1], hop[2], hop[3], 0}
	sure("set the source route", unix.SetsockoptString(fd, unix.IPPROTO_IP, unix.IP_OPTIONS, string(options)))
	ok(unix.Sendto(fd, []byte("hello"), 0, sa))
	return "sent"
}

// tryRoutingHeader is the same for IPv6, with segments (RFC 8754, type 4).
func tryRoutingHeader(args []string) string {
	fd, sa := socket(args[1], unix.SOCK_DGRAM, 0)
	hop, last := netip.MustParseAddrPort(args[0]).Addr().As16(), netip.MustParseAddrPort(args[1]).Addr().As16()
	header := slices.Concat([]byte{0, 4, 4, 1, 1, 0, 0, 0}, last[:], hop[:])
	sure("set the routing header", unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_RTHDR, string(header)))
	ok(unix.Sendto(fd, []byte("hello"), 0, sa))
	return "sent"
}

// tryRaw sends a datagram that it makes itself.
func tryRaw(args []string) string {
	fd := got(unix.Socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_UDP))
	to := netip.MustParseAddrPort(args[0])
	packet := []byte{0x30, 0x39, byte(to.Port() >> 8), byte(to.Port()), 0, 13, 0, 0, 'h', 'e', 'l', 'l', 'o'}
	ok(unix.Sendto(fd, packet, 0, &unix.SockaddrInet4{Addr: to.Addr().As4()}))
	return "sent"
}

// tryHandOut makes a socket and sends it through descriptor 3.
func tryHandOut([]string) string {
	ok(unix.Sendmsg(3, []byte("x"), unix.UnixRights(open(unix.AF_INET, unix.SOCK_STREAM, 0)), nil, 0))
	return "handed out"
}

// tryBegin begins a session in the cgroup that is descriptor 3, writes to descriptor 4, and waits to be killed.
func tryBegin(args []string) string {
	s := got(Load())
	ok(s.Begin(42, 3, got(NewImage(got(compiled(policy.Deny, tcp(args[0], 8001))), 1)), Egress{}))
	ok(s.SaveState([]byte("for the next")))
	fmt.Fprintln(os.NewFile(4, "report"), "begun")
	time.Sleep(time.Hour)
	return ""
}

// tryInherited connects descriptor 3, a socket that another process made.
func tryInherited(args []string) string {
	setReceiveTimeout(3)
	_, sa := at(args[0])
	return receiveFrom(3, sa)
}

// tryEgress is egress: it asks where a connection was going, twice, and permits an address. Descriptors 3 and 4 are its maps.
func tryEgress(args []string) string {
	k := NewKernel(3, 4)
	client, listener := netip.MustParseAddrPort(args[0]), netip.MustParseAddrPort(args[1])
	to, _, err := k.Original(client, listener)
	if err != nil {
		return err.Error()
	}
	if _, _, err := k.Original(client, listener); err == nil {
		return "reported twice"
	}
	if err := k.Permit(1, "tcp", netip.MustParseAddrPort(args[2]), time.Now().Add(time.Minute)); err != nil {
		return err.Error()
	}
	return "was going to " + to.String()
}

// again writes a line, and reports whether to continue: whether its input has a line.
func again(output string) bool {
	fmt.Fprintln(os.NewFile(3, "report"), output)
	n, _ := os.Stdin.Read(make([]byte, 1))
	return n > 0
}

// tryHold sends datagrams from one socket, waiting for a line on its input before each.
func tryHold(args []string) string {
	fd, sa := socket(args[1], unix.SOCK_DGRAM, 0)
	if args[0] == "connected" {
		ok(unix.Connect(fd, sa))
		sa = nil
	}
	for {
		var err error
		if sa == nil {
			_, err = unix.Write(fd, []byte("hello"))
		} else {
			err = unix.Sendto(fd, []byte("hello"), 0, sa)
		}
		output := errName(err)
		if err == nil {
			receiveUDP(fd)
			output = "received"
		}
		if !again(output) {
			return output
		}
	}
}

// tryConnectAgain connects one socket, and dissolves that, waiting for a line on its input before each further time.
func tryConnectAgain(args []string) string {
	fd, sa := socket(args[0], unix.SOCK_STREAM, 0)
	for {
		output := "connected"
		if err := unix.Connect(fd, sa); err != nil {
			output = errName(err)
		}
		if !again(output) {
			return output
		}
		dissolve(fd)
	}
}

// dissolve has a socket be connected no more.
func dissolve(fd int) {
	none := unix.RawSockaddrInet6{Family: unix.AF_UNSPEC}
	_, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(fd), uintptr(unsafe.Pointer(&none)), unsafe.Sizeof(none))
	called(errno)
}

// tryFlood causes the given number of denials.
func tryFlood(args []string) string {
	fd, sa := socket(args[0], unix.SOCK_DGRAM, 0)
	for range number(args[1]) {
		if err := unix.Sendto(fd, []byte("hello"), 0, sa); err != unix.EACCES {
			return fmt.Sprint("not denied: ", err)
		}
	}
	return "denied"
}

// What a turn is: what is measured, and what goes before.
const turn, warm = 20, 5

// tryConnectOften returns the median time of a number of connects. Another child does so as well, by turns: a reader of a
// byte from the third descriptor has its turn, and the other one gets it by the fourth.
func tryConnectOften(args []string) string {
	family, sa := at(args[0])
	var took []time.Duration
	for len(took) < number(args[1]) {
		if n, err := unix.Read(3, make([]byte, 1)); n != 1 {
			ok(fmt.Errorf("the other one has gone: %v", err))
		}
		for i := range turn + warm {
			fd := got(unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
			began := time.Now()
			err := unix.Connect(fd, sa)
			if i >= warm {
				took = append(took, time.Since(began))
			}
			ok(errors.Join(err, unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}), unix.Close(fd)))
		}
		_, _ = unix.Write(4, make([]byte, 1)) // the other child may have ended after its last turn
	}
	slices.Sort(took)
	return strconv.Itoa(int(took[len(took)/2]))
}

// tryURing connects through io_uring.
func tryURing(args []string) string {
	fd, to := open(unix.AF_INET, unix.SOCK_STREAM, 0), raw4(args[0], unix.AF_INET)
	e := ringEntry{opcode: 16 /* IORING_OP_CONNECT */, fd: int32(fd), address: uint64(uintptr(unsafe.Pointer(to))), offset: unix.SizeofSockaddrInet4}
	if result := submit(e); result < 0 {
		ok(unix.Errno(-result))
	}
	return receiveTCP(fd)
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
func submit(e ringEntry) int32 {
	var p ringParams
	ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&p)), 0)
	called(errno)
	mem := func(offset int64, size int) []byte {
		return got(unix.Mmap(int(ring), offset, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED))
	}
	sq, cq := mem(0, int(p.submission.array)+4), mem(0x8000000, int(p.completion.cqes)+16*int(p.completions))
	*(*ringEntry)(unsafe.Pointer(&mem(0x10000000, int(unsafe.Sizeof(e)))[0])) = e
	*(*uint32)(unsafe.Pointer(&sq[p.submission.array])) = 0
	*(*uint32)(unsafe.Pointer(&sq[p.submission.tail])) = 1
	_, _, errno = unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, 1 /* IORING_ENTER_GETEVENTS */, 0, 0)
	called(errno)
	return *(*int32)(unsafe.Pointer(&cq[p.completion.cqes+8]))
}
