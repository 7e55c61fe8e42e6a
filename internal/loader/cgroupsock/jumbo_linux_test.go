package cgroupsock

import (
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/nettest"
)

const (
	bulk    = 64 << 20
	jumbo   = 0xffff + 40 // the longest IPv6 packet without a jumbo option
	longest = 8 * 0xffff  // of a packet that a device cuts up
)

// For packets longer than an IPv6 header's length field, the kernel adds a jumbo option: only that extension is permitted.
func TestJumbo(t *testing.T) {
	needRoot(t)
	must(t, gso(longest))
	defer func() { _ = gso(1 << 16) }()
	l, _ := plainTCP(t, "[fd00::1]:8003")
	go nettest.Accept(l, func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c)
		fmt.Fprint(c, n)
	})
	seen := longPackets(t)
	g := begin(t, tcp("fd00::1", 8003), tcp("fd00::1", 8001), udp("fd00::1", 8001))
	attempt{try: "bulk|[fd00::1]:8003", free: fmt.Sprint(bulk)}.check(t, g)
	if !<-seen {
		t.Error("no packet needed a jumbo option")
	}

	server(t, "[fd00::1]:8001")
	attempt{"hop by hop|[fd00::1]:8001", "received hello, from [fd00::1]:8001", "EPERM", "packet route [fd00::1]:0: no rule"}.check(t, g)
}

// gso sets the loopback device's maximum packet length.
func gso(length int) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetGSOMaxSize(lo, length)
}

// longPackets reports whether a packet with a jumbo option is seen.
func longPackets(t *testing.T) <-chan bool {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, int(networkOrder(unix.ETH_P_IPV6)))
	must(t, err)
	setReceiveTimeout(fd)
	seen := make(chan bool, 1)
	go func() {
		defer unix.Close(fd)
		for {
			var b [1]byte
			n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_TRUNC)
			if err != nil || n > jumbo {
				seen <- err == nil
				return
			}
		}
	}()
	return seen
}

// tryBulk sends a lot at once.
func tryBulk(args []string) string {
	c := got(net.Dial("tcp", args[0]))
	b := make([]byte, 4<<20)
	for range bulk / len(b) {
		got(c.Write(b))
	}
	_ = c.(*net.TCPConn).CloseWrite()
	return string(got(io.ReadAll(c)))
}

// tryHopByHop sends a datagram with an option for every hop.
func tryHopByHop(args []string) string {
	fd, to := socket(args[0], unix.SOCK_DGRAM, 0)
	padding := string([]byte{0, 0, 1, 4, 0, 0, 0, 0})
	ok(unix.SetsockoptString(fd, unix.IPPROTO_IPV6, unix.IPV6_HOPOPTS, padding))
	ok(unix.Sendto(fd, []byte("hello"), 0, to))
	return receiveUDP(fd)
}
