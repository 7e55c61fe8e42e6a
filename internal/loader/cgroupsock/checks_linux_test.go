package cgroupsock

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

// scene is a session among servers.
func scene(t *testing.T) *testSession {
	t.Helper()
	for _, at := range []string{
		"127.1.0.1:8001", "127.1.0.9:8001", "127.2.0.1:8001", "[fd00::1]:8001", "[fd00::2]:8001", "127.0.0.1:8002", "[::1]:8002", "127.0.0.1:9000",
		"10.1.2.3:443", "[fd00::2]:443", "10.1.2.3:53", "127.3.0.1:53", "[fd00::1]:53",
	} {
		server(t, at)
	}
	return begin(
		t,
		tcp("127.1.0.0/16", 8001), policy.NetRule{Host: "127.1.0.9", Port: 8001},
		udp("127.1.0.0/16", 8001), policy.NetRule{Host: "127.1.0.9", Port: 8001, Protocol: "udp"},
		policy.NetRule{Host: "a.test", Scheme: "https", Allow: true}, tcp("fd00::1", 8001), udp("fd00::1", 8001), tcp("localhost", 8002),
		listening(tcp("", 8013)), listening(tcp("127.0.0.1", 8004)), listening(udp("", 8013)),
	)
}

// attempt is an operation that is tried outside a session, where it succeeds, and in one.
type attempt struct {
	try      string // words between "|"
	free     string // what comes of it outside
	confined string // and inside; "": the same
	event    string // that it leaves
}

func (a attempt) check(t *testing.T, g *testSession) {
	t.Helper()
	order := strings.Split(a.try, "|")
	if got := run(t, nil, expecting(a.free, order)...); got != a.free {
		t.Errorf("%s: outside: %q, want %q", a.try, got, a.free)
	}
	want := a.confined
	if want == "" {
		want = a.free
	}
	g.tries(a.try, want, a.event)
}

// tries has the session try words between "|", and looks at what comes of it and which event it leaves; "": none.
func (g *testSession) tries(try, want, event string) {
	g.t.Helper()
	g.clear()
	before := g.denied()
	if got := run(g.t, g, expecting(want, strings.Split(try, "|"))...); got != want {
		g.t.Errorf("%s: %q, want %q", try, got, want)
	}
	if event != "" {
		g.reported(event)
	} else if n := g.denied() - before; n != 0 {
		g.t.Errorf("%s: %d denials", try, n)
	}
}

// served is the answer of a server that is reached directly.
func served(at string) string { return "server " + at + ", peer " + at }

// expecting is an order whose answer isn't waited for in vain for long.
func expecting(answer string, order []string) []string {
	if answer == "EAGAIN" || answer == "EINPROGRESS" {
		return append([]string{"briefly"}, order...)
	}
	return order
}

func TestConnect(t *testing.T) {
	needRoot(t)
	g := scene(t)
	for _, a := range []attempt{
		// Granted by address.
		{try: "tcp|127.1.0.1:8001", free: "server 127.1.0.1:8001, peer 127.1.0.1:8001"},
		{try: "tcp|6 127.1.0.1:8001", free: "server 127.1.0.1:8001, peer [::ffff:127.1.0.1]:8001"},
		{try: "tcp|[fd00::1]:8001", free: "server [fd00::1]:8001, peer [fd00::1]:8001"},
		{try: "tcp|127.0.0.1:8002", free: "server 127.0.0.1:8002, peer 127.0.0.1:8002"},
		{try: "tcp|[::1]:8002", free: "server [::1]:8002, peer [::1]:8002"},
		{try: "fast open|127.1.0.1:8001", free: "server 127.1.0.1:8001, peer 127.1.0.1:8001"},
		{try: "fast open later|127.1.0.1:8001", free: "server 127.1.0.1:8001, peer 127.1.0.1:8001"},
		{try: "uring|127.1.0.1:8001", free: "server 127.1.0.1:8001, peer 127.1.0.1:8001"},
		{try: "reconnect|tcp|127.1.0.1:8001|127.1.0.1:8001", free: "connected"},
		{try: "mark|127.1.0.1:8001", free: "server 127.1.0.1:8001, peer 127.1.0.1:8001"},

		// Everything else doesn't, on whichever way.
		{"tcp|127.1.0.9:8001", "server 127.1.0.9:8001, peer 127.1.0.9:8001", "EACCES", "connect policy 127.1.0.9:8001: net.2"},
		{"tcp|127.2.0.1:8001", "server 127.2.0.1:8001, peer 127.2.0.1:8001", "EACCES", "connect policy 127.2.0.1:8001: no rule"},
		{"tcp|6 127.2.0.1:8001", "server 127.2.0.1:8001, peer [::ffff:127.2.0.1]:8001", "EACCES", "connect policy 127.2.0.1:8001: no rule"},
		{"tcp|6 127.1.0.9:8001", "server 127.1.0.9:8001, peer [::ffff:127.1.0.9]:8001", "EACCES", "connect policy 127.1.0.9:8001: net.2"},
		{"tcp|[fd00::2]:8001", "server [fd00::2]:8001, peer [fd00::2]:8001", "EACCES", "connect policy [fd00::2]:8001: no rule"},
		{"tcp|127.0.0.1:9000", "server 127.0.0.1:9000, peer 127.0.0.1:9000", "EACCES", "connect policy 127.0.0.1:9000: no rule"},
		{"tcp|0.0.0.0:9000", "server 127.0.0.1:9000, peer 127.0.0.1:9000", "EACCES", "connect policy 127.0.0.1:9000: no rule"},
		{"fast open|127.2.0.1:8001", "server 127.2.0.1:8001, peer 127.2.0.1:8001", "EACCES", "connect policy 127.2.0.1:8001: no rule"},
		{"fast open|6 127.2.0.1:8001", "server 127.2.0.1:8001, peer [::ffff:127.2.0.1]:8001", "EACCES", "connect policy 127.2.0.1:8001: no rule"},
		{"fast open later|127.2.0.1:8001", "server 127.2.0.1:8001, peer 127.2.0.1:8001", "EACCES", "connect policy 127.2.0.1:8001: no rule"},
		{"uring|127.2.0.1:8001", "server 127.2.0.1:8001, peer 127.2.0.1:8001", "EACCES", "connect policy 127.2.0.1:8001: no rule"},
		{"reconnect|tcp|127.1.0.1:8001|127.2.0.1:8001", "connected", "EACCES", "connect policy 127.2.0.1:8001: no rule"},
		{"reconnect|tcp|10.1.2.3:443|127.2.0.1:8001", "connected", "EACCES", "connect policy 127.2.0.1:8001: no rule"},
		{"mark|127.2.0.1:8001", "server 127.2.0.1:8001, peer 127.2.0.1:8001", "EACCES", "connect policy 127.2.0.1:8001: no rule"},

		// The machine itself, where no address is named, is 127.0.0.1 or ::1, by the rules too.
		{try: "tcp|0.0.0.0:8002", free: "server 127.0.0.1:8002, peer 127.0.0.1:8002"},
		{try: "tcp|6 0.0.0.0:8002", free: "server 127.0.0.1:8002, peer [::ffff:127.0.0.1]:8002"},
		{try: "tcp|[::]:8002", free: "server [::1]:8002, peer [::1]:8002"},

		// An address that is too short is no address.
		{try: "short|127.1.0.1:8001|16", free: "connected"},
		{try: "short|127.1.0.1:8001|15", free: "EINVAL"},
		{try: "short|127.2.0.1:8001|4", free: "EINVAL"},
		{try: "short|127.2.0.1:8001|1", free: "EINVAL"},
	} {
		a.check(t, g)
	}
}

// Redirected connections arrive at egress, and appear to have their original destination.
func TestRedirected(t *testing.T) {
	needRoot(t)
	g := scene(t)
	redirected := func(to, peer string) string { return "egress for " + to + ", peer " + peer }
	for _, a := range []attempt{
		{try: "tcp|10.1.2.3:443", free: "server 10.1.2.3:443, peer 10.1.2.3:443", confined: redirected("10.1.2.3:443", "10.1.2.3:443")},
		{try: "tcp|6 10.1.2.3:443", free: "server 10.1.2.3:443, peer [::ffff:10.1.2.3]:443", confined: redirected("10.1.2.3:443", "[::ffff:10.1.2.3]:443")},
		{try: "tcp|[fd00::2]:443", free: "server [fd00::2]:443, peer [fd00::2]:443", confined: redirected("[fd00::2]:443", "[fd00::2]:443")},
		{try: "fast open|10.1.2.3:443", free: "server 10.1.2.3:443, peer 10.1.2.3:443", confined: redirected("10.1.2.3:443", "10.1.2.3:443")},
		{try: "fast open later|10.1.2.3:443", free: "server 10.1.2.3:443, peer 10.1.2.3:443", confined: redirected("10.1.2.3:443", "10.1.2.3:443")},
		{try: "uring|10.1.2.3:443", free: "server 10.1.2.3:443, peer 10.1.2.3:443", confined: redirected("10.1.2.3:443", "10.1.2.3:443")},

		// DNS, over TCP and UDP, whatever the server.
		{try: "tcp|10.1.2.3:53", free: "server 10.1.2.3:53, peer 10.1.2.3:53", confined: redirected("10.1.2.3:53", "10.1.2.3:53")},
		{try: "udp|10.1.2.3:53", free: "received hello, from 10.1.2.3:53, peer 10.1.2.3:53"},
		{try: "udp|[fd00::1]:53", free: "received hello, from [fd00::1]:53, peer [fd00::1]:53"},
		{try: "udp|6 10.1.2.3:53", free: "received hello, from [::ffff:10.1.2.3]:53, peer [::ffff:10.1.2.3]:53"},
		{try: "send|10.1.2.3:53|127.3.0.1:53", free: "received hello, from 10.1.2.3:53; received hello, from 127.3.0.1:53"},
		{try: "send|6 10.1.2.3:53", free: "received hello, from [::ffff:10.1.2.3]:53"},
		{try: "send|[fd00::1]:53", free: "received hello, from [fd00::1]:53"},
		{try: "send|10.1.2.3:53|127.1.0.1:8001|10.1.2.3:53", free: "received hello, from 10.1.2.3:53; received hello, from 127.1.0.1:8001; received hello, from 10.1.2.3:53"},
	} {
		a.check(t, g)
	}
}

// Egress answers DNS instead of the servers, which receive nothing.
func TestDNSReachesNoServer(t *testing.T) {
	needRoot(t)
	g := begin(t)
	c, err := net.ListenPacket("udp", "10.1.2.3:53")
	must(t, err)
	defer c.Close()
	for _, order := range [][]string{{"udp", "10.1.2.3:53"}, {"send", "10.1.2.3:53"}} {
		if got := run(t, g, order...); !strings.HasPrefix(got, "received hello, from 10.1.2.3:53") {
			t.Errorf("%q: %q", order, got)
		}
	}
	if got := run(t, nil, "briefly", "send", "10.1.2.3:53"); got != "EAGAIN" { // no answer
		t.Errorf("outside: %q", got)
	}
	var b [64]byte
	if n, _, err := c.ReadFrom(b[:]); err != nil || string(b[:n]) != "hello" {
		t.Errorf("the one from outside doesn't arrive: %q, %v", b[:n], err)
	}
	setReadDeadline(t, c)
	if n, from, err := c.ReadFrom(b[:]); err == nil {
		t.Errorf("%q from %s reached a server", b[:n], from)
	}
}

func TestDatagrams(t *testing.T) {
	needRoot(t)
	g := scene(t)
	received := func(from string) string { return "received hello, from " + from }
	for _, a := range []attempt{
		{try: "send|127.1.0.1:8001", free: received("127.1.0.1:8001")},
		{try: "send|6 127.1.0.1:8001", free: received("[::ffff:127.1.0.1]:8001")},
		{try: "send|[fd00::1]:8001", free: received("[fd00::1]:8001")},
		{try: "udp|127.1.0.1:8001", free: received("127.1.0.1:8001") + ", peer 127.1.0.1:8001"},
		{try: "send unspec|127.1.0.1:8001", free: received("127.1.0.1:8001")},
		{try: "send elsewhere|127.1.0.1:8001|127.1.0.1:8001", free: "sent"},
		{try: "send many|127.1.0.1:8001|127.1.0.1:8001", free: "sent 2"},
		{"send|127.2.0.1:8001", received("127.2.0.1:8001"), "EACCES", "send policy 127.2.0.1:8001: no rule"},
		{"send|127.1.0.9:8001", received("127.1.0.9:8001"), "EACCES", "send policy 127.1.0.9:8001: net.4"},
		{"send|6 127.2.0.1:8001", received("[::ffff:127.2.0.1]:8001"), "EACCES", "send policy 127.2.0.1:8001: no rule"},
		{"send|[fd00::2]:8001", received("[fd00::2]:8001"), "EACCES", "send policy [fd00::2]:8001: no rule"},
		{"send|0.0.0.0:9000", received("127.0.0.1:9000"), "EACCES", "send policy 127.0.0.1:9000: no rule"},
		{"send unspec|127.2.0.1:8001", received("127.2.0.1:8001"), "EACCES", "send policy 127.2.0.1:8001: no rule"},
		{"udp|127.2.0.1:8001", received("127.2.0.1:8001") + ", peer 127.2.0.1:8001", "EPERM", "packet policy 127.2.0.1:8001: no rule"},
		{"udp|6 127.2.0.1:8001", received("[::ffff:127.2.0.1]:8001") + ", peer [::ffff:127.2.0.1]:8001", "EACCES", "send policy 127.2.0.1:8001: no rule"},
		{"reconnect|udp|127.1.0.1:8001|127.2.0.1:8001", "connected", "EPERM", "packet policy 127.2.0.1:8001: no rule"},
		{"send elsewhere|127.1.0.1:8001|127.2.0.1:8001", "sent", "EACCES", "send policy 127.2.0.1:8001: no rule"},
		{"send elsewhere|10.1.2.3:53|127.2.0.1:8001", "sent", "EACCES", "send policy 127.2.0.1:8001: no rule"},
		{"send many|127.1.0.1:8001|127.2.0.1:8001", "sent 2", "sent 1", "send policy 127.2.0.1:8001: no rule"},
		{"send|10.1.2.3:443", received("10.1.2.3:443"), "EACCES", "send policy 10.1.2.3:443: no rule"}, // QUIC isn't granted with https
	} {
		a.check(t, g)
	}
}

// Egress's ports accept redirected connections only.
func TestEgressItself(t *testing.T) {
	needRoot(t)
	g, other := scene(t), begin(t)
	at := func(host string, port uint16) string { return fmt.Sprintf("%s:%d", host, port) }
	tcp4, udp4 := at("127.0.0.1", g.egress.TCP4), at("127.0.0.1", g.egress.UDP4)
	for _, a := range []attempt{
		{"tcp|" + tcp4, "egress knows nothing, peer " + tcp4, "EACCES", "connect egress " + tcp4 + ": no rule"},
		{"tcp|6 " + tcp4, "egress knows nothing, peer [::ffff:127.0.0.1]:" + tcp4[10:], "EACCES", "connect egress " + tcp4 + ": no rule"},
		{"tcp|" + at("0.0.0.0", g.egress.TCP4), "egress knows nothing, peer " + tcp4, "EACCES", "connect egress " + tcp4 + ": no rule"},
		{"tcp|" + at("[::1]", g.egress.TCP6), "egress knows nothing, peer " + at("[::1]", g.egress.TCP6), "EACCES", "connect egress " + at("[::1]", g.egress.TCP6) + ": no rule"},
		{"send|" + udp4, "received hello, from " + udp4, "EACCES", "send egress " + udp4 + ": no rule"},
		{"send|" + at("[::1]", g.egress.UDP6), "received hello, from " + at("[::1]", g.egress.UDP6), "EACCES", "send egress " + at("[::1]", g.egress.UDP6) + ": no rule"},
		{"reuse|tcp|" + tcp4, "EADDRINUSE", "EACCES", "bind egress " + tcp4 + ": no rule"},
		{"reuse|udp|" + udp4, "EADDRINUSE", "EACCES", "bind egress " + udp4 + ": no rule"},
		{"reuse|tcp|" + at("127.9.0.1", g.egress.TCP4), "bound", "EACCES", "bind egress " + at("127.9.0.1", g.egress.TCP4) + ": no rule"},
	} {
		a.check(t, g)
	}
	theirs := at("127.0.0.1", other.egress.TCP4)
	attempt{"tcp|" + theirs, "egress knows nothing, peer " + theirs, "EACCES", "connect policy " + theirs + ": no rule"}.check(t, g)
	free := beginWith(t, compile(t, policy.Allow))
	if got := run(t, free, "tcp", theirs); !strings.HasPrefix(got, "egress knows nothing") {
		t.Errorf("a session that may reach everything gets from another session's egress %q", got)
	}
}

// Egress may have any port: 256 is 1 in a packet's order on this machine's.
func TestEgressPort(t *testing.T) {
	needRoot(t)
	g := prepare(t, compile(t, policy.Deny, policy.NetRule{Host: "a.test", Scheme: "https", Allow: true}))
	g.kernel = NewKernel(g.Descriptors())
	g.egress = Egress{TCP4: g.serveTCP("127.0.0.1:256")}
	g.egress.Sockets = socketsAt(g.egress)
	g.start()
	server(t, "10.1.2.3:443")
	attempt{
		try: "tcp|10.1.2.3:443", free: "server 10.1.2.3:443, peer 10.1.2.3:443", confined: "egress for 10.1.2.3:443, peer 10.1.2.3:443",
	}.check(t, g)
}

func TestSockets(t *testing.T) {
	needRoot(t)
	g := begin(t, tcp("127.1.0.0/16", 8001))
	free := beginWith(t, compile(t, policy.Allow))
	for _, x := range []struct {
		name           string
		what           string
		free, confined string // in a session that may reach everything, and in one that may not
	}{
		{"TCP", "2|1|0", "made", "made"},
		{"TCP, by name", "10|1|6", "made", "made"},
		{"UDP", "2|2|0", "made", "made"},
		{"MPTCP", "2|1|262", "made", "EACCES"},
		{"MPTCP on IPv6", "10|1|262", "made", "EACCES"},
		{"ping", "2|2|1", "made", "EACCES"},
		{"raw", "2|3|255", "EACCES", "EACCES"},
		{"raw ICMP", "2|3|1", "EACCES", "EACCES"},
		{"raw on IPv6", "10|3|58", "EACCES", "EACCES"},
		{"UDP-Lite", "2|2|136", "EACCES", "EACCES"},
		{"SCTP", "2|1|132", "EACCES", "EACCES"},
		{"SCTP, one to many", "2|5|132", "EACCES", "EACCES"},
	} {
		order := append([]string{"socket"}, strings.Split(x.what, "|")...)
		outside := run(t, nil, order...)
		if outside != "made" { // the kernel doesn't have it
			t.Logf("%s: %s outside, too", x.name, outside)
			x.free, x.confined = outside, outside
		}
		g.clear()
		if got := run(t, free, order...); got != x.free {
			t.Errorf("%s: %s in a session that may go anywhere, want %s", x.name, got, x.free)
		}
		if got := run(t, g, order...); got != x.confined {
			t.Errorf("%s: %s, want %s", x.name, got, x.confined)
		}
		if x.confined != "EACCES" {
			continue
		}
		g.reported("socket socket: no rule")
	}
}

// A host that is denied on every port is denied for ICMP, which has no ports; one that is denied on one port isn't.
func TestPing(t *testing.T) {
	needRoot(t)
	denied, tcpOnly, onePort := policy.NetRule{Host: "10.1.2.0/24"}, policy.NetRule{Host: "127.1.0.9", Protocol: "tcp"}, policy.NetRule{Host: "127.1.0.1", Port: 8001}
	g := beginWith(t, compile(t, policy.Allow, denied, tcpOnly, onePort, policy.NetRule{Host: "fd00::1"}))
	for _, a := range []attempt{
		{try: "ping|127.2.0.1:0", free: "hello"},
		{try: "ping|127.1.0.9:0", free: "hello"},
		{try: "ping|127.1.0.1:0", free: "hello"},
		{try: "ping|[fd00::2]:0", free: "hello"},
		{"ping|10.1.2.3:0", "hello", "EPERM", "packet policy 10.1.2.3:0: net.1"},
		{"ping|10.1.2.3:8001", "hello", "EPERM", "packet policy 10.1.2.3:0: net.1"},
		{"ping|[fd00::1]:0", "hello", "EAGAIN", "packet policy [fd00::1]:0: net.4"}, // ping_v6_sendmsg returns no error
	} {
		a.check(t, g)
	}
}

func TestBind(t *testing.T) {
	needRoot(t)
	g := scene(t)
	for _, a := range []attempt{
		{try: "bind|tcp|0.0.0.0:8013", free: "bound"},
		{try: "bind|tcp|[::]:8013", free: "bound"},
		{try: "bind|tcp|127.0.0.1:8004", free: "bound"},
		{try: "bind|tcp|6 127.0.0.1:8004", free: "bound"},
		{try: "bind|udp|0.0.0.0:8013", free: "bound"},
		{try: "bind|tcp|127.0.0.1:0", free: "bound"},
		{try: "bind|udp|0.0.0.0:0", free: "bound"},
		{"bind|tcp|0.0.0.0:8004", "bound", "EACCES", "bind policy 0.0.0.0:8004: no rule"},
		{"bind|tcp|[::]:8004", "bound", "EACCES", "bind policy [::]:8004: no rule"},
		{"bind|tcp|6 0.0.0.0:8004", "bound", "EACCES", "bind policy 0.0.0.0:8004: no rule"},
		{"bind|tcp|127.0.0.1:8005", "bound", "EACCES", "bind policy 127.0.0.1:8005: no rule"},
		{"bind|udp|127.0.0.1:8004", "bound", "EACCES", "bind policy 127.0.0.1:8004: no rule"},
	} {
		a.check(t, g)
	}
	if got := run(t, g, "listen"); got != "listens" {
		t.Errorf("to listen on any port: %q", got)
	}
}
