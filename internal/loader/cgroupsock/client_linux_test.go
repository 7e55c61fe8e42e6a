package cgroupsock

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// Egress gets the client process of every connection and datagram.
func TestClientOf(t *testing.T) {
	needRoot(t)
	g := prepare(t, compile(t, policy.Deny, tcp("a.test", 443)))
	g.kernel = NewKernel(g.Descriptors())
	began := sinceBoot()
	say := func(p event.Observed) string {
		return fmt.Sprintf("%d of %d and %q, seen meanwhile: %v", p.PID, p.UID, p.Comm, p.SeenAt > began && p.SeenAt < sinceBoot())
	}
	ofTCP := func(c *net.TCPConn) string {
		_, by, err := g.kernel.Original(addrOf(c.RemoteAddr()), addrOf(c.LocalAddr()))
		return say(by) + " " + fmt.Sprint(err)
	}
	var last atomic.Pointer[net.UDPAddr] // the sender of a datagram
	ofUDP := func(at string) uint16 {
		return answerUDP(t, at, func(c net.PacketConn, from net.Addr, _ []byte) string {
			last.Store(from.(*net.UDPAddr))
			by, err := g.kernel.Sender(addrOf(from), addrOf(c.LocalAddr()))
			return say(by) + " " + fmt.Sprint(err)
		})
	}
	g.egress = Egress{
		TCP4: listenTCP(t, "127.0.0.1:0", ofTCP), TCP6: listenTCP(t, "[::1]:0", ofTCP), UDP4: ofUDP("127.0.0.1:0"), UDP6: ofUDP("[::1]:0"),
	}
	g.egress.Sockets = socketsAt(g.egress)
	g.start()
	for _, order := range []string{
		"tcp|10.1.2.3:443", "tcp|6 10.1.2.3:443", "tcp|[fd00::2]:443", "tcp|10.1.2.3:53",
		"fast open|10.1.2.3:443", "fast open later|10.1.2.3:443", "uring|10.1.2.3:443",
		"udp|10.1.2.3:53", "udp|[fd00::1]:53", "udp|6 10.1.2.3:53", "send|10.1.2.3:53", "send|6 10.1.2.3:53", "send|[fd00::1]:53",
	} {
		output := run(t, g, append([]string{"say who"}, strings.Split(order, "|")...)...)
		who, answer, _ := strings.Cut(output, ": ")
		if want := who + ", seen meanwhile: true"; !strings.Contains(answer, want) || !strings.Contains(who, " of 0 and ") {
			t.Errorf("%s: egress answers %q, not %s", order, answer, want)
		}
	}
	for _, x := range []struct{ order, at string }{
		{"10.1.2.3:53", fmt.Sprintf("127.0.0.1:%d", g.egress.UDP4)}, {"[fd00::1]:53", fmt.Sprintf("[::1]:%d", g.egress.UDP6)},
	} {
		if output := run(t, g, "send", x.order); !strings.Contains(output, "<nil>") {
			t.Errorf("about a datagram egress answers %q", output)
		}
		if output := saidTo(t, last.Load(), x.at); !strings.Contains(output, "wasn't redirected") {
			t.Errorf("about one from a process outside, from the same port, egress answers %q", output)
		}
	}
	to := fmt.Sprintf("127.0.0.1:%d", g.egress.UDP4)
	if output := run(t, nil, "send", to); !strings.HasPrefix(output, "0 of 0") || !strings.Contains(output, "no such file") {
		t.Errorf("about a process outside egress answers %q", output)
	}
}

// saidTo returns the answer to a datagram from a port.
func saidTo(t *testing.T, from *net.UDPAddr, to string) string {
	t.Helper()
	c, err := net.ListenUDP("udp", from)
	must(t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	answer := make([]byte, 512)
	if _, err = c.WriteToUDPAddrPort([]byte("ping"), netip.MustParseAddrPort(to)); err != nil {
		t.Fatal(err)
	}
	n, err := c.Read(answer)
	must(t, err)
	return string(answer[:n])
}

// Egress remembers a bounded number of ports, and counts no datagram twice after an eviction.
func TestReceived(t *testing.T) {
	k := NewKernel(-1, -1)
	port := func(n int) netTuple { return netTuple{ClientPort: uint16(n), Kind: uint32(n >> 16)} }
	for n := range 2 * maxReceived {
		for i, want := range []bool{true, true, false} {
			if k.receive(port(n), 7, 2) != want {
				t.Fatalf("datagram %d of a socket that sent two: want %v", i+1, want)
			}
		}
	}
	if len(k.received) > maxReceived {
		t.Errorf("%d ports are remembered", len(k.received))
	}
	if !k.receive(port(0), 8, 1) || k.receive(port(0), 8, 1) {
		t.Error("another socket's aren't counted by themselves")
	}
	if !k.receive(port(1), 9, 2) || !k.receive(port(1), 9, 1) || k.receive(port(1), 9, 2) {
		t.Error("the first of two datagrams isn't received after the second")
	}
}
