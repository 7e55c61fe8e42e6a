package netguard

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/egress/link"
	"github.com/toolguard/toolguard/internal/policy"
)

// Egress is told whose it is, whatever comes to it.
func TestWhose(t *testing.T) {
	needRoot(t)
	g := prepare(t, compile(t, policy.Deny, tcp("a.test", 443)))
	g.kernel = NewKernel(g.Descriptors())
	began := sinceBoot()
	say := func(p link.Process) string {
		return fmt.Sprintf("%d of %d and %q, seen meanwhile: %v", p.PID, p.UID, p.Comm, p.Since > began && p.Since < sinceBoot())
	}
	ofTCP := func(c *net.TCPConn) string {
		_, by, err := g.kernel.Original(addrOf(c.RemoteAddr()), addrOf(c.LocalAddr()))
		return say(by) + " " + fmt.Sprint(err)
	}
	ofUDP := func(at string) uint16 {
		return answerUDP(t, at, func(c net.PacketConn, from net.Addr, _ []byte) string {
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
		said := run(t, g, append([]string{"say who"}, strings.Split(order, "|")...)...)
		who, answer, _ := strings.Cut(said, ": ")
		if want := who + ", seen meanwhile: true"; !strings.Contains(answer, want) || !strings.Contains(who, " of 0 and ") {
			t.Errorf("%s: egress says %q, not %s", order, answer, want)
		}
	}
	to := fmt.Sprintf("127.0.0.1:%d", g.egress.UDP4)
	if said := run(t, nil, "send", to); !strings.HasPrefix(said, "0 of 0") || !strings.Contains(said, "no such file") {
		t.Errorf("of somebody outside egress says %q", said)
	}
}
