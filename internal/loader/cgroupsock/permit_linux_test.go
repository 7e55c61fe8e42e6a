package cgroupsock

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// An address that egress permits may be reached directly until it expires, and by a socket that reached it before, for its life.
func TestPermit(t *testing.T) {
	needRoot(t)
	g := begin(t, tcp("a.test", 5432), policy.NetRule{Host: "127.6.0.9", Port: 5432}, tcp("a.test", 443), policy.NetRule{Host: "127.6.0.9", Port: 443})
	for _, at := range []string{"127.6.0.1:5432", "127.6.0.9:5432", "[fd00::2]:5432", "127.6.0.1:443", "127.6.0.9:443"} {
		server(t, at)
	}
	permit := func(proto, to string, d time.Duration) {
		t.Helper()
		must(t, g.kernel.Permit(1, proto, netip.MustParseAddrPort(to), time.Now().Add(d)))
	}
	expect := func(want string, order ...string) {
		t.Helper()
		if got := run(t, g, order...); got != want {
			t.Errorf("%q: %q, want %q", order, got, want)
		}
	}
	direct := "server 127.6.0.1:5432, peer 127.6.0.1:5432"
	expect("EACCES", "tcp", "127.6.0.1:5432")
	permit("tcp", "127.6.0.1:5432", time.Minute)
	expect(direct, "tcp", "127.6.0.1:5432")
	expect("server 127.6.0.1:5432, peer [::ffff:127.6.0.1]:5432", "tcp", "6 127.6.0.1:5432")
	expect("EACCES", "tcp", "127.6.0.1:5433")
	expect("EACCES", "tcp", "127.6.0.2:5432")
	expect("EACCES", "send", "127.6.0.1:5432")
	permit("tcp", "127.6.0.1:5432", time.Millisecond) // doesn't shorten the earlier permission
	time.Sleep(20 * time.Millisecond)
	expect(direct, "tcp", "127.6.0.1:5432")

	permit("tcp", "127.6.0.9:5432", time.Minute)
	g.tries("tcp|127.6.0.9:5432", "EACCES", "connect policy 127.6.0.9:5432: net.2") // what a rule denies isn't permitted

	permit("tcp", "127.6.0.9:443", time.Minute)
	expect("egress for 127.6.0.9:443, peer 127.6.0.9:443", "tcp", "127.6.0.9:443")
	permit("tcp", "127.6.0.1:443", time.Minute)
	expect("server 127.6.0.1:443, peer 127.6.0.1:443", "tcp", "127.6.0.1:443")

	permit("tcp", "[fd00::2]:5432", -time.Second)
	expect("EACCES", "tcp", "[fd00::2]:5432")
	permit("tcp", "[fd00::2]:5432", 100*time.Millisecond)
	time.Sleep(150 * time.Millisecond)
	expect("EACCES", "tcp", "[fd00::2]:5432")
	permit("tcp", "[fd00::2]:5432", time.Minute)
	expect("server [fd00::2]:5432, peer [fd00::2]:5432", "tcp", "[fd00::2]:5432")

	var children []*child
	for d := 700 * time.Millisecond; ; d *= 4 { // on a slow machine it's over before they are there
		permit("udp", "127.6.0.1:5432", d)
		children = []*child{startChild(t, g, "hold", "connected", "127.6.0.1:5432"), startChild(t, g, "hold", "sending", "127.6.0.1:5432")}
		if children[0].line() == "received" && children[1].line() == "received" {
			time.Sleep(d + 100*time.Millisecond)
			break
		}
		if d > time.Minute {
			t.Fatal("permitted, and denied")
		}
	}
	for _, c := range children {
		if got := c.again(); got != "received" {
			t.Errorf("the same socket, afterwards: %s", got)
		}
	}
	expect("EACCES", "send", "127.6.0.1:5432")
}

// A connection that was permitted by a name can't begin again after the name has expired.
func TestConnectAgain(t *testing.T) {
	needRoot(t)
	rule := tcp("a.test", 5432)
	g := begin(t, rule)
	server(t, "127.6.1.1:5432")
	permit := func() {
		t.Helper()
		must(t, g.kernel.Permit(1, "tcp", netip.MustParseAddrPort("127.6.1.1:5432"), time.Now().Add(time.Hour)))
	}
	permit()
	reconnecting := startChild(t, g, "connect again", "127.6.1.1:5432")
	for i, got := range []string{reconnecting.line(), reconnecting.again()} {
		if got != "connected" {
			t.Errorf("%d: %s", i, got)
		}
	}
	g.reload(2, rule)
	if got := reconnecting.again(); got != "EACCES" {
		t.Errorf("the same socket, afterwards: %s", got)
	}
	permit()
	if got := reconnecting.again(); got != "connected" {
		t.Errorf("permitted again: %s", got)
	}
}

// A full map evicts expired entries, and otherwise permits nothing.
func TestPermitMany(t *testing.T) {
	needRoot(t)
	g := begin(t)
	at := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 7, byte(i >> 8), byte(i)}), 5432)
	}
	permit := func(i int, d time.Duration) error {
		return g.kernel.Permit(1, "tcp", at(i), time.Now().Add(d))
	}
	n := int(g.maps[netMapNames].MaxEntries())
	for i := range n {
		d := time.Hour
		if i%2 == 0 {
			d = -time.Second
		}
		must(t, permit(i, d))
	}
	for i := range n / 2 {
		if err := permit(n+i, time.Hour); err != nil {
			t.Fatalf("%d places permitted, %d of them expired: %v", n, n/2-i, err)
		}
	}
	if err := permit(2*n, time.Hour); !errors.Is(err, unix.E2BIG) {
		t.Errorf("into a full map: %v", err)
	}
}

// Egress needs no privileges.
func TestUnprivilegedEgress(t *testing.T) {
	needRoot(t)
	text, err := os.ReadFile("/proc/sys/kernel/unprivileged_bpf_disabled")
	if err != nil || trimmed(text) == "0" {
		t.Logf("kernel.unprivileged_bpf_disabled is %q: there's less to show", text)
	}
	g := prepare(t, compile(t, policy.Deny, tcp("a.test", 443)))
	ends := make(chan string, 1)
	l, port := plainTCP(t, "127.0.0.1:0")
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		ends <- c.RemoteAddr().String() + " " + c.LocalAddr().String()
		time.Sleep(50 * time.Millisecond)
		_ = c.Close()
	}()
	g.egress = Egress{TCP4: port}
	g.egress.Sockets = socketsAt(g.egress)
	g.start()
	server(t, "127.6.0.1:5432")
	if got := run(t, g, "tcp", "10.1.2.3:443"); got != ", peer 10.1.2.3:443" {
		t.Fatalf("redirected to egress: %q", got)
	}
	originals, names := g.Descriptors()
	var files []*os.File
	for _, fd := range []int{originals, names} {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		must(t, err)
		files = append(files, os.NewFile(uintptr(dup), "map"))
	}
	order := append(append([]string{"egress"}, strings.Fields(<-ends)...), "127.6.0.1:5432")
	if got := runAs(t, nil, 65534, files, order...); got != "was going to 10.1.2.3:443" {
		t.Errorf("without privileges: %s", got)
	}
	if got := run(t, g, "tcp", "127.6.0.1:5432"); !strings.HasPrefix(got, "server") {
		t.Errorf("what it permitted: %s", got)
	}
	for _, f := range files {
		_ = f.Close()
	}
}

// Without egress, the destinations that it decides about are denied.
func TestNoEgress(t *testing.T) {
	needRoot(t)
	server(t, "127.1.0.1:8001")
	g := prepare(t, compile(t, policy.Deny, tcp("a.test", 443), tcp("127.1.0.1", 8001)))
	g.start()
	for order, want := range map[string]string{
		"tcp|10.1.2.3:443": "connect egress 10.1.2.3:443: no rule", "tcp|[fd00::1]:53": "connect egress [fd00::1]:53: no rule",
		"udp|127.0.0.1:53": "connect egress 127.0.0.1:53: no rule", "send|[::1]:53": "send egress [::1]:53: no rule",
	} {
		g.tries(order, "EACCES", want)
	}
	g.tries("tcp|127.1.0.1:8001", served("127.1.0.1:8001"), "") // egress has no part in it
}
