package cgroupsock

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// No process reaches a listener that the policy doesn't grant.
func TestAccept(t *testing.T) {
	needRoot(t)
	g, free := begin(t, listening(tcp("", 8003)), listening(udp("", 8003))), beginWith(t, compile(t, policy.Allow))
	for _, x := range []struct {
		order string
		want  string // for a listener in the session that may not
		free  string // and in one that may
	}{
		{"wait for|tcp|127.0.0.1:8003", "accepted", "accepted"},
		{"wait for|tcp|[::]:8003", "accepted", "accepted"},
		{"wait for|tcp", "EAGAIN", "accepted"},
		{"wait for|tcp|127.0.0.1:0", "EAGAIN", "accepted"},
		{"wait for|udp|127.0.0.1:8003", "hello", "hello"},
		{"wait for|udp|127.0.0.1:0", "EAGAIN", "hello"},
		{"wait for|udp|[::1]:0", "EAGAIN", "hello"},
	} {
		for _, in := range []*testSession{g, free} {
			want := map[*testSession]string{g: x.want, free: x.free}[in]
			c := startChild(t, in, strings.Split(x.order, "|")...)
			at := netip.MustParseAddrPort(c.line())
			if at.Addr().IsUnspecified() {
				at = netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), at.Port())
			}
			knock(at)
			if want == "EAGAIN" {
				c.waitDenied(g, at)
			}
			if got := c.end(); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %q, want %q", x.order, got, want)
			}
		}
	}
}

// knock tries to reach a socket, by TCP and UDP.
func knock(at netip.AddrPort) {
	go func() {
		if c, err := net.DialTimeout("tcp", at.String(), 300*time.Millisecond); err == nil {
			_ = c.Close()
		}
	}()
	if c, err := net.Dial("udp", at.String()); err == nil {
		_, _ = c.Write([]byte("hello"))
		_ = c.Close()
	}
}

// Only a peer that the session may send to may answer, though other peers use the same socket.
func TestAnswers(t *testing.T) {
	needRoot(t)
	g := begin(t, udp("127.5.0.1", 7), tcp("127.5.0.1", 7))
	for from, want := range map[string]string{"127.5.0.1:7": "received", "127.5.0.1:8": "EAGAIN", "127.5.0.2:7": "EAGAIN"} {
		c := startChild(t, g, "wait for", "udp", "127.0.0.1:0")
		at := netip.MustParseAddrPort(c.line())
		to := net.UDPAddrFromAddrPort(at)
		s, err := net.ListenPacket("udp", from)
		must(t, err)
		if _, err := s.WriteTo([]byte("received"), to); err != nil {
			t.Error(err)
		}
		_ = s.Close()
		if want == "EAGAIN" {
			c.waitDenied(g, at)
		}
		if got := c.end(); !strings.HasPrefix(got, want) {
			t.Errorf("from %s: %q, want %q", from, got, want)
		}
	}
	// To connect is no answer.
	c := startChild(t, g, "wait for", "tcp", "127.0.0.1:0")
	at := netip.MustParseAddrPort(c.line())
	from := net.Dialer{Timeout: 300 * time.Millisecond, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 5, 0, 1), Port: 7}}
	if conn, err := from.Dial("tcp", at.String()); err == nil {
		_ = conn.Close()
	}
	c.waitDenied(g, at)
	if got := c.end(); got != "EAGAIN" {
		t.Errorf("a connection from there: %q", got)
	}
}

// A session's owner may be killed: the session stays confined, another process gets its events, and it's freed with its cgroup.
func TestDeath(t *testing.T) {
	needRoot(t)
	server(t, "127.1.0.1:8001")
	server(t, "127.2.0.1:8001")
	c := compile(t, policy.Deny, tcp("127.1.0.1", 8001))
	g := prepare(t, c)
	g.Close()
	if s, err := Open(int(g.group.Fd())); err == nil {
		s.Close()
		t.Error("a cgroup without programs is opened")
	}
	cmd := childtest.Command(t, 0, []string{"begin", "127.1.0.1"})
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	cmd.ExtraFiles = []*os.File{g.group, w}
	must(t, cmd.Start())
	_ = w.Close()
	if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	expect := func(when string) {
		t.Helper()
		if granted, not := run(t, g, "tcp", "127.1.0.1:8001"), run(t, g, "tcp", "127.2.0.1:8001"); granted != served("127.1.0.1:8001") || not != "EACCES" {
			t.Errorf("%s: granted: %s; not granted: %s", when, granted, not)
		}
	}
	expect("at first")
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	expect("after the death")
	if g.Session, err = Open(int(g.group.Fd())); err != nil {
		t.Fatal(err)
	}
	if err := g.Listen(func(e Event) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.events = append(g.events, e)
	}); err != nil {
		t.Fatal(err)
	}
	if kept := string(g.SavedState()); kept != "for the next" {
		t.Errorf("it was to keep %q", kept)
	}
	g.kernel = NewKernel(g.Descriptors())
	g.serve()
	must(t, g.Redirect(g.egress))
	if got, want := run(t, g, "tcp", "10.1.2.3:53"), "egress for 10.1.2.3:53, peer 10.1.2.3:53"; got != want {
		t.Errorf("another one's egress: %s", got)
	}
	expect("with another owner")
	counts, err := g.End()
	must(t, err)
	if lines := g.lines(); len(lines) != 3 || counts != (Counts{Sequence: 3, Denied: 3}) {
		t.Errorf("%+v, and the events %q", counts, lines)
	}
	v := c.CheckNet(&netname.Target{Protocol: "tcp", Addr: netip.MustParseAddr("127.2.0.1"), Port: 8001})
	for i, e := range g.events {
		if e.Layer != int(v.Layer) || e.Rule != int(v.Rule) {
			t.Errorf("layer %d, rule %d; the policy's is %+v", e.Layer, e.Rule, v)
		}
		if e.Sequence != uint64(i+1) || e.Session != 42 || e.PID == 0 || e.TID == 0 || e.UID != 0 || e.Comm != "exe" || time.Since(e.Time) > time.Minute || e.Protocol != unix.IPPROTO_TCP {
			t.Errorf("the event is %+v", e)
		}
	}
	expect("without a process")
	id := g.attached(ebpf.AttachCGroupInet4Connect)
	_ = g.group.Close()
	must(t, removeGroup(g.dir))
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		p, err := ebpf.NewProgramFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			if err := os.Mkdir(g.dir, 0o755); err != nil { // for the cleanup that removes it
				t.Fatal(err)
			}
			return
		}
		_ = p.Close()
	}
	t.Error("the cgroup is gone, and its programs aren't")
}

// Every denial is reported or counted, however many there are.
func TestFlood(t *testing.T) {
	needRoot(t)
	g := begin(t)
	const n, rate = 20000, 2000 // in one second
	began := time.Now()
	if got := run(t, g, "flood", "127.2.0.1:8001", fmt.Sprint(n)); got != "denied" {
		t.Fatal(got)
	}
	counts, err := g.End()
	must(t, err)
	reported, took := uint64(len(g.lines())), time.Since(began)
	if counts.Denied != n || reported+counts.Suppressed+counts.Lost != n || reported == 0 || float64(reported) > rate*(took.Seconds()+2) {
		t.Errorf("%d denials in %v, %d reported, %+v", n, took, reported, counts)
	}
	if counts.Sequence != reported+counts.Lost {
		t.Errorf("%d reported and %d lost, but the sequence ends with %d", reported, counts.Lost, counts.Sequence)
	}
}

// Where anything may be reached by default, MPTCP may be, too, and what is denied isn't by it.
func TestMPTCP(t *testing.T) {
	needRoot(t)
	server(t, "127.1.0.1:8001")
	server(t, "127.2.0.1:8001")
	g := beginWith(t, compile(t, policy.Allow, policy.NetRule{Host: "127.2.0.1", Port: 8001}))
	if got := run(t, nil, "mptcp", "127.1.0.1:8001"); got == "EPROTONOSUPPORT" || got == "ENOPROTOOPT" {
		t.Skip("needs a kernel with MPTCP: ", got)
	}
	for _, a := range []attempt{
		{try: "mptcp|127.1.0.1:8001", free: "server 127.1.0.1:8001, peer 127.1.0.1:8001"},
		{"mptcp|127.2.0.1:8001", "server 127.2.0.1:8001, peer 127.2.0.1:8001", "EACCES", "connect policy 127.2.0.1:8001: net.1"},
		{"mptcp|6 127.2.0.1:8001", "server 127.2.0.1:8001, peer [::ffff:127.2.0.1]:8001", "EACCES", "connect policy 127.2.0.1:8001: net.1"},
	} {
		a.check(t, g)
	}
}

// Begin attaches all programs or none.
func TestBeginFails(t *testing.T) {
	needRoot(t)
	g, other := prepare(t, compile(t, policy.Deny)), prepare(t, compile(t, policy.Deny))
	defer other.Close()
	group := int(g.group.Fd())
	// Another program is attached exclusively to the cgroup's last hook.
	last := link.RawAttachProgramOptions{Target: group, Program: other.programs[netProgNetSendmsg6], Attach: ebpf.AttachCGroupUDP6Sendmsg}
	must(t, link.RawAttachProgram(last))
	img, err := NewImage(g.policy, 1)
	must(t, err)
	if err := g.Begin(1, group, img, Egress{}); !errors.Is(err, unix.EPERM) {
		t.Errorf("begin with an exclusive program: %v", err)
	}
	g.Close()
	server(t, "127.2.0.1:8001")
	if got := run(t, g, "tcp", "127.2.0.1:8001"); got != "server 127.2.0.1:8001, peer 127.2.0.1:8001" {
		t.Errorf("something is left on the cgroup: %s", got)
	}
}

// A connection that comes to nothing leaves nothing behind, and one that egress hasn't taken yet does.
func TestNothingKept(t *testing.T) {
	needRoot(t)
	for _, x := range []struct {
		waits bool
		want  string
		kept  int
	}{{false, "EACCES", 0}, {true, "EAGAIN", 1}} {
		g := prepare(t, compile(t, policy.Deny, tcp("a.test", 443)))
		l, port := plainTCP(t, "127.0.0.1:0")
		g.egress = Egress{TCP4: port}
		g.egress.Sockets = socketsAt(g.egress)
		g.start()
		if !x.waits {
			_ = l.Close()
		}
		if got := run(t, g, expecting(x.want, []string{"tcp", "10.1.2.3:443"})...); got != x.want {
			t.Errorf("egress waits: %v: %q", x.waits, got)
		}
		var key netTuple
		var to netOriginal
		kept, all := 0, g.maps[netMapOriginals].Iterate()
		for all.Next(&key, &to) {
			kept++
		}
		if err := all.Err(); err != nil || kept != x.kept {
			t.Errorf("egress waits: %v: %d connections are kept, %v", x.waits, kept, err)
		}
	}
}
