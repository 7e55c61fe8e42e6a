package netguard

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/pins"
	"github.com/toolguard/toolguard/internal/policy"
)

// A session that runs is held to another image from one moment to the next, and names that egress has found are found anew.
func TestReload(t *testing.T) {
	needRoot(t)
	for _, at := range []string{"127.1.0.1:8001", "127.2.0.1:8001", "127.3.0.1:5432"} {
		server(t, at)
	}
	g := begin(t, tcp("127.1.0.1", 8001), tcp("named.test", 5432))
	permit(t, g, "127.3.0.1:5432")
	for i, x := range []struct {
		rules  []policy.NetRule
		wants  string
		events []string
	}{
		{[]policy.NetRule{tcp("127.2.0.1", 8001)}, "no yes no", []string{"connect policy 127.1.0.1:8001", "connect policy 127.3.0.1:5432"}},
		{[]policy.NetRule{tcp("127.1.0.1", 8001)}, "yes no no", []string{"connect policy 127.2.0.1:8001", "connect policy 127.3.0.1:5432"}},
	} {
		img, err := NewImage(compile(t, policy.Deny, x.rules...), uint32(i+2))
		if err != nil {
			t.Fatal(err)
		}
		g.clear()
		if err := g.Reload(img); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, at := range []string{"127.1.0.1:8001", "127.2.0.1:8001", "127.3.0.1:5432"} {
			if said := run(t, g, "tcp", at); strings.HasPrefix(said, "server "+at) {
				got = append(got, "yes")
			} else if said == "EACCES" {
				got = append(got, "no")
			}
		}
		if said := strings.Join(got, " "); said != x.wants {
			t.Errorf("%d: %s, want %s", i, said, x.wants)
		}
		for _, want := range x.events {
			if lines, ok := g.wait(want + ": no rule"); !ok {
				t.Errorf("%d: no event %q among %q", i, want, lines)
			}
		}
	}
}

// What was let go somewhere last isn't, at once, where another image says so: the kernel remembers it.
func TestLatest(t *testing.T) {
	needRoot(t)
	server(t, "127.1.0.1:8001")
	g := begin(t, tcp("127.1.0.1", 8001))
	for i, allowed := range []string{"127.1.0.1", "127.2.0.1", "127.1.0.1", "127.2.0.1"} {
		img, err := NewImage(compile(t, policy.Deny, tcp(allowed, 8001)), uint32(i+2))
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Reload(img); err != nil {
			t.Fatal(err)
		}
		g.clear()
		want := "server"
		if allowed != "127.1.0.1" {
			want = "EACCES"
		}
		for range 2 {
			if got := run(t, g, "on one processor", "tcp", "127.1.0.1:8001"); !strings.HasPrefix(got, want) {
				t.Errorf("%s is allowed: %s, want %s", allowed, got, want)
			}
		}
		if want == "EACCES" {
			if lines, ok := g.wait("connect policy 127.1.0.1:8001: no rule"); !ok {
				t.Errorf("no event among %q", lines)
			}
		}
	}
}

// Where everything may be reached egress's own ports may not, by those either who ask twice.
func TestLatestEgress(t *testing.T) {
	needRoot(t)
	g := beginWith(t, compile(t, policy.Allow, policy.NetRule{Host: "127.2.0.1", Port: 8001}))
	server(t, "127.1.0.1:8001")
	if got := run(t, g, "tcp", "127.1.0.1:8001"); !strings.HasPrefix(got, "server") {
		t.Errorf("any other: %s", got)
	}
	at := fmt.Sprint("127.0.0.1:", g.egress.TCP4)
	for range 2 {
		g.clear()
		if got := run(t, g, "on one processor", "tcp", at); got != "EACCES" {
			t.Errorf("egress: %s", got)
		}
		if lines, ok := g.wait("connect egress " + at + ": no rule"); !ok {
			t.Errorf("no event among %q", lines)
		}
	}
}

// Nor do the packets of a socket that was connected before go there, or those of another protocol.
func TestLatestPacket(t *testing.T) {
	needRoot(t)
	server(t, "127.1.0.1:8001")
	g := begin(t, udp("127.1.0.1", 8001))
	next := askOn(t, g, "on one processor", "ask on", "127.1.0.1:8001")
	img, err := NewImage(compile(t, policy.Deny, tcp("127.1.0.1", 8001)), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Reload(img); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, do func() string) {
		g.clear()
		if got := do(); got != "EPERM" {
			t.Errorf("%s: %s", what, got)
		}
		if lines, ok := g.wait("packet policy 127.1.0.1:8001: no rule"); !ok {
			t.Errorf("%s: no event among %q", what, lines)
		}
	}
	refused("a socket that was connected before", next)
	if got := run(t, g, "on one processor", "tcp", "127.1.0.1:8001"); !strings.HasPrefix(got, "server") {
		t.Errorf("TCP: %s", got)
	}
	refused("UDP, where TCP may go", func() string { return run(t, g, "on one processor", "udp", "127.1.0.1:8001") })
}

// permit has the session reach a place because of a name, and makes sure that it does.
func permit(t *testing.T, g *guarded, at string) {
	t.Helper()
	if err := g.kernel.Permit("tcp", netip.MustParseAddrPort(at), time.Now().Add(time.Minute), policy.Verdict{Allow: true}); err != nil {
		t.Fatal(err)
	}
	if got := run(t, g, "tcp", at); !strings.HasPrefix(got, "server "+at) {
		t.Fatalf("what a name leads to: %s", got)
	}
}

// Events say by which image was decided.
func TestGenerations(t *testing.T) {
	needRoot(t)
	denied := policy.NetRule{Host: "127.2.0.1", Port: 8001}
	g := begin(t, tcp("127.1.0.1", 8001), denied)
	for generation := range uint32(3) {
		if generation > 0 {
			img, err := NewImage(compile(t, policy.Deny, denied), generation+1)
			if err != nil {
				t.Fatal(err)
			}
			if err := g.Reload(img); err != nil {
				t.Fatal(err)
			}
		}
		run(t, g, "tcp", "127.2.0.1:8001")
	}
	if _, err := g.End(); err != nil {
		t.Fatal(err)
	}
	var got []uint32
	for _, e := range g.events {
		got = append(got, e.Generation)
	}
	if !slices.Equal(got, []uint32{1, 2, 3}) {
		t.Errorf("the events are of %v", got)
	}
}

// When egress is gone and somebody else waits at its port, nothing of the session gets there: no new connection, no datagram of a
// socket that was led there before.
func TestEgressGone(t *testing.T) {
	needRoot(t)
	g := prepare(t, compile(t, policy.Deny, tcp("a.test", 443)))
	tcp4, port := plainTCP(t, "127.0.0.1:0")
	udp4, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g.egress = Egress{TCP4: port, UDP4: wait(t, "udp", udp4.LocalAddr(), udp4.(*net.UDPConn))}
	g.egress.Sockets = socketsAt(g.egress)
	g.start()
	next := askOn(t, g, "ask on", "10.1.2.3:53")
	var b [9]byte
	if n, _, err := udp4.ReadFrom(b[:]); err != nil || string(b[:n]) != "one" {
		t.Fatalf("egress hears %q, %v", b[:n], err)
	}
	_, _ = tcp4.Close(), udp4.Close()
	other, err := net.ListenPacket("udp4", fmt.Sprintf("127.0.0.1:%d", g.egress.UDP4))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	waiting.Delete(fmt.Sprint("tcp", port))
	plainTCP(t, fmt.Sprintf("127.0.0.1:%d", port))
	if got := next(); got != "EPERM" {
		t.Errorf("a socket that was led to egress goes on: %s", got)
	}
	if got := run(t, g, "tcp", "10.1.2.3:443"); got != "EACCES" {
		t.Errorf("a connection: %s", got)
	}
	if got := run(t, g, "send", "10.1.2.3:53"); got != "EACCES" {
		t.Errorf("a datagram: %s", got)
	}
	patienceOf(t, other)
	if n, _, err := other.ReadFrom(b[:]); err == nil {
		t.Errorf("who has the port hears %q", b[:n])
	}
	for _, want := range []string{
		fmt.Sprintf("packet egress 127.0.0.1:%d", g.egress.UDP4), "connect egress 10.1.2.3:443", "send egress 10.1.2.3:53",
	} {
		if lines, ok := g.wait(want + ": no rule"); !ok {
			t.Errorf("no event %q among %q", want, lines)
		}
	}
}

// askOn has a child begin to "ask on". What it returns has it go on, and says what came of that.
func askOn(t *testing.T, g *guarded, order ...string) (next func() string) {
	t.Helper()
	heard, told, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, goOn, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan string, 1)
	go func() {
		said <- runAs(t, g, 0, []*os.File{told, wait}, order...)
		_, _ = told.Close(), wait.Close()
	}()
	_, err = bufio.NewReader(heard).ReadString('\n')
	_ = heard.Close()
	if err != nil {
		t.Fatalf("%q says %q", order, <-said)
	}
	return func() string {
		_ = goOn.Close()
		return <-said
	}
}

// tryAskOn sends a datagram, says so through descriptor 3, and when nobody writes to descriptor 4 any more another one.
func tryAskOn(args []string) (string, error) {
	family, to := at(args[0])
	fd, err := open(family, unix.SOCK_DGRAM)
	if err != nil {
		return "", err
	}
	if err := unix.Connect(fd, to); err != nil {
		return "", err
	}
	if _, err := unix.Write(fd, []byte("one")); err != nil {
		return "", err
	}
	fmt.Fprintln(os.NewFile(3, "report"), "sent")
	_, _ = io.ReadAll(os.NewFile(4, "go"))
	_, err = unix.Write(fd, []byte("two"))
	return "sent", err
}

// What a session that has ended leaves holds the next one, by its own policy alone; what is still on a cgroup isn't left.
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
	if got := run(t, first, "on one processor", "tcp", "127.1.0.1:8001"); !strings.HasPrefix(got, "server") {
		t.Errorf("what it's allowed: %s", got)
	}
	id := first.attached(ebpf.AttachCGroupInet4Connect)
	if err := first.Detach(int(first.group.Fd())); err != nil {
		t.Fatal(err)
	}
	if _, err := first.End(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(pins.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	taken := take()
	if err := os.Chmod(pins.Root, 0o700); err != nil {
		t.Fatal(err)
	}
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
	if got := run(t, second, "on one processor", "tcp", "127.1.0.1:8001"); got != "EACCES" {
		t.Errorf("what only the first session was allowed, last: %s", got)
	}
	for at, want := range map[string]string{"127.1.0.1:8001": "EACCES", "127.2.0.1:8001": "server", "127.3.0.1:5432": "EACCES"} {
		if got := run(t, second, "tcp", at); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	if _, err := second.End(); err != nil { // what it was holds on
		t.Fatal(err)
	}
	if got := run(t, second, "tcp", "127.1.0.1:8001"); got != "EACCES" {
		t.Errorf("it ended, and its cgroup is there: %s", got)
	}
	if dirs, err := os.ReadDir(current); err != nil || len(dirs) != 0 {
		t.Errorf("left for the next: %v, %v", dirs, err)
	}
	for range 2 {
		if err := Ahead(); err != nil {
			t.Fatal(err)
		}
	}
	if third := take(); third == nil || take() != nil {
		t.Error("it isn't one that waits")
	} else {
		third.Close()
	}
}
