package cgroupsock

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/bpffs"
	"github.com/toolguard/toolguard/internal/policy"
)

// Reload replaces a running session's image at once, and egress must permit names again. Events say by
// which image was decided.
func TestReload(t *testing.T) {
	needRoot(t)
	for _, at := range []string{"127.1.0.1:8001", "127.2.0.1:8001", "127.3.0.1:5432"} {
		server(t, at)
	}
	g := begin(t, tcp("127.1.0.1", 8001), tcp("named.test", 5432))
	permit(t, g, "127.3.0.1:5432")
	for i, x := range []struct{ allowed, denied string }{{"127.2.0.1", "127.1.0.1"}, {"127.1.0.1", "127.2.0.1"}} {
		g.reload(uint32(i+2), tcp(x.allowed, 8001))
		g.tries("tcp|"+x.allowed+":8001", served(x.allowed+":8001"), "")
		for _, at := range []string{x.denied + ":8001", "127.3.0.1:5432"} {
			g.tries("tcp|"+at, "EACCES", "connect policy "+at+": no rule")
			g.mu.Lock()
			if e := g.events[0]; e.Generation != uint32(i+2) {
				t.Errorf("%d: the event is of %d", i, e.Generation)
			}
			g.mu.Unlock()
		}
	}
}

// reload replaces a session's rules.
func (g *testSession) reload(generation uint32, rules ...policy.NetRule) {
	g.t.Helper()
	img, err := NewImage(compile(g.t, policy.Deny, rules...), generation)
	must(g.t, err)
	must(g.t, g.Reload(img))
}

// The cached last destination isn't permitted any more as soon as another image denies it.
func TestLatest(t *testing.T) {
	needRoot(t)
	server(t, "127.1.0.1:8001")
	g := begin(t, tcp("127.1.0.1", 8001))
	for i, allowed := range []string{"127.1.0.1", "127.2.0.1", "127.1.0.1", "127.2.0.1"} {
		g.reload(uint32(i+2), tcp(allowed, 8001))
		want, event := served("127.1.0.1:8001"), ""
		if allowed != "127.1.0.1" {
			want, event = "EACCES", "connect policy 127.1.0.1:8001: no rule"
		}
		for range 2 {
			g.tries("on one processor|tcp|127.1.0.1:8001", want, event)
		}
	}
}

// A session that may reach everything may not reach egress's own ports, not even at a second attempt.
func TestLatestEgress(t *testing.T) {
	needRoot(t)
	g := beginWith(t, compile(t, policy.Allow, policy.NetRule{Host: "127.2.0.1", Port: 8001}))
	server(t, "127.1.0.1:8001")
	g.tries("tcp|127.1.0.1:8001", served("127.1.0.1:8001"), "")
	at := fmt.Sprint("127.0.0.1:", g.egress.TCP4)
	for range 2 {
		g.tries("on one processor|tcp|"+at, "EACCES", "connect egress "+at+": no rule")
	}
}

// Nor do the packets of a socket that was connected before go there, or those of another protocol.
func TestLatestPacket(t *testing.T) {
	needRoot(t)
	server(t, "127.1.0.1:8001")
	g := begin(t, udp("127.1.0.1", 8001))
	before := startChild(t, g, "on one processor", "hold", "connected", "127.1.0.1:8001")
	if got := before.line(); got != "received" {
		t.Fatal(got)
	}
	g.reload(2, tcp("127.1.0.1", 8001))
	const denied = "packet policy 127.1.0.1:8001: no rule"
	if got := before.again(); got != "EPERM" {
		t.Errorf("a socket that was connected before: %s", got)
	}
	g.reported(denied)
	g.tries("on one processor|tcp|127.1.0.1:8001", served("127.1.0.1:8001"), "")
	g.tries("on one processor|udp|127.1.0.1:8001", "EPERM", denied)
}

// permit permits an address by name, and checks that the session reaches it.
func permit(t *testing.T, g *testSession, at string) {
	t.Helper()
	must(t, g.kernel.Permit(1, "tcp", netip.MustParseAddrPort(at), time.Now().Add(time.Minute)))
	g.tries("tcp|"+at, served(at), "")
}

// When egress has ended and another process listens at its port, nothing of the session reaches it: no new connection, no datagram of a
// socket that was redirected there before.
func TestEgressGone(t *testing.T) {
	needRoot(t)
	g := prepare(t, compile(t, policy.Deny, tcp("a.test", 443)))
	tcp4, port := plainTCP(t, "127.0.0.1:0")
	udp4, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	g.egress = Egress{TCP4: port, UDP4: wait(t, "udp", udp4.LocalAddr(), udp4.(*net.UDPConn))}
	g.egress.Sockets = socketsAt(g.egress)
	g.start()
	redirected := startChild(t, g, "hold", "connected", "10.1.2.3:53")
	var b [9]byte
	n, from, err := udp4.ReadFrom(b[:])
	if err != nil || string(b[:n]) != "hello" {
		t.Fatalf("egress received %q, %v", b[:n], err)
	}
	_, err = udp4.WriteTo([]byte("hello"), from)
	must(t, err)
	if got := redirected.line(); got != "received" {
		t.Fatal(got)
	}
	_, _ = tcp4.Close(), udp4.Close()
	other, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", g.egress.UDP4))
	must(t, err)
	defer other.Close()
	waiting.Delete(fmt.Sprint("tcp", port))
	plainTCP(t, fmt.Sprintf("127.0.0.1:%d", port))
	if got := redirected.again(); got != "EPERM" {
		t.Errorf("a socket that was redirected to egress still sends: %s", got)
	}
	g.reported(fmt.Sprintf("packet egress 127.0.0.1:%d: no rule", g.egress.UDP4))
	g.tries("tcp|10.1.2.3:443", "EACCES", "connect egress 10.1.2.3:443: no rule")
	g.tries("send|10.1.2.3:53", "EACCES", "send egress 10.1.2.3:53: no rule")
	setReadDeadline(t, other)
	if n, _, err := other.ReadFrom(b[:]); err == nil {
		t.Errorf("the process with the port received %q", b[:n])
	}
}

// The programs of an ended session serve the next one, with only its policy. Programs that are still attached don't.
func TestPool(t *testing.T) {
	needRoot(t)
	if mounted != nil {
		t.Skip("needs a BPF file system: ", mounted)
	}
	for _, at := range []string{"127.1.0.1:8001", "127.2.0.1:8001", "127.3.0.1:5432"} {
		server(t, at)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(current); err != nil {
			t.Error(err)
		}
	})
	first := begin(t, tcp("127.1.0.1", 8001), tcp("named.test", 5432))
	permit(t, first, "127.3.0.1:5432")
	first.tries("on one processor|tcp|127.1.0.1:8001", served("127.1.0.1:8001"), "")
	id := first.attached(ebpf.AttachCGroupInet4Connect)
	must(t, first.Detach(int(first.group.Fd())))
	if _, err := first.End(); err != nil {
		t.Fatal(err)
	}
	must(t, os.Chmod(bpffs.Root, 0o755))
	taken := acquire()
	must(t, os.Chmod(bpffs.Root, 0o700))
	if taken != nil {
		t.Fatal("what isn't in a folder of root's alone was taken")
	}
	second := begin(t, tcp("127.2.0.1", 8001))
	if got := second.attached(ebpf.AttachCGroupInet4Connect); got != id {
		t.Errorf("the program is %d, and was %d", got, id)
	}
	if c := second.Counts(); c != (Counts{}) {
		t.Errorf("it has counted %+v", c)
	}
	second.tries("on one processor|tcp|127.1.0.1:8001", "EACCES", "connect policy 127.1.0.1:8001: no rule") // the last that the first was allowed
	second.tries("tcp|127.2.0.1:8001", served("127.2.0.1:8001"), "")
	second.tries("tcp|127.3.0.1:5432", "EACCES", "connect policy 127.3.0.1:5432: no rule")
	if _, err := second.End(); err != nil { // its programs stay attached
		t.Fatal(err)
	}
	if got := run(t, second, "tcp", "127.1.0.1:8001"); got != "EACCES" {
		t.Errorf("it ended, and its cgroup is there: %s", got)
	}
	if dirs, err := os.ReadDir(current); err != nil || len(dirs) != 0 {
		t.Errorf("left for the next: %v, %v", dirs, err)
	}
	for range 2 {
		childtest.Must(t, Preload())
	}
	if third := acquire(); third == nil || acquire() != nil {
		t.Error("it isn't one that waits")
	} else {
		third.Close()
	}
}
