package cgroupsock

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// child is a child that writes lines before its answer.
type child struct {
	t      testing.TB
	cmd    *exec.Cmd
	in     *os.File
	output *bufio.Scanner // through its descriptor 3
	answer bytes.Buffer
}

func startChild(t testing.TB, g *testSession, order ...string) *child {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	stdin, in, err := os.Pipe()
	must(t, err)
	defer stdin.Close()
	c := &child{t: t, cmd: childtest.Command(t, 0, order), in: in, output: bufio.NewScanner(r)}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.ExtraFiles = stdin, &c.answer, []*os.File{w}
	if g != nil {
		c.cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(g.group.Fd())}
	}
	must(t, c.cmd.Start())
	t.Cleanup(func() {
		_ = in.Close()
		_ = r.Close()
		_ = c.cmd.Process.Kill()
		_ = c.cmd.Wait() // if it isn't reaped yet
	})
	return c
}

// line is the child's next line.
func (c *child) line() string {
	c.t.Helper()
	if !c.output.Scan() {
		c.t.Fatalf("the child writes nothing: %v", c.output.Err())
	}
	return c.output.Text()
}

// again lets the child go on.
func (c *child) again() string {
	c.t.Helper()
	if _, err := c.in.Write([]byte("\n")); err != nil {
		c.t.Fatal(err)
	}
	return c.line()
}

// end is what the child answers in the end.
func (c *child) end() (answer string) {
	c.t.Helper()
	must(c.t, c.cmd.Wait())
	must(c.t, json.Unmarshal(c.answer.Bytes(), &answer))
	return answer
}

// denied waits until a connection to the child was denied, and ends the child.
func (c *child) waitDenied(g *testSession, at netip.AddrPort) {
	c.t.Helper()
	g.reported(fmt.Sprintf("accept policy %s: no rule", at))
	_ = c.in.Close()
}

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

// without detaches programs from a session's cgroup, as if they were bypassed.
func (g *testSession) without(names ...string) {
	g.t.Helper()
	spec, err := loadNet()
	must(g.t, err)
	for _, name := range names {
		attach := spec.Programs[name].AttachType
		p, err := ebpf.NewProgramFromID(g.attached(attach))
		must(g.t, err)
		err = link.RawDetachProgram(link.RawDetachProgramOptions{Target: int(g.group.Fd()), Program: p, Attach: attach})
		if err = errors.Join(err, p.Close()); err != nil {
			g.t.Fatal(err)
		}
	}
}

// attached is the program on a session's cgroup.
func (g *testSession) attached(attach ebpf.AttachType) ebpf.ProgramID {
	g.t.Helper()
	q, err := link.QueryPrograms(link.QueryOptions{Target: int(g.group.Fd()), Attach: attach})
	if err != nil || len(q.Programs) != 1 {
		g.t.Fatalf("the programs on the cgroup: %+v, %v", q, err)
	}
	return q.Programs[0].ID
}

// The second check denies without the first one.
func TestSecondCheck(t *testing.T) {
	needRoot(t)
	g := scene(t)
	g.without(netProgNetConnect4, netProgNetConnect6, netProgNetSendmsg4, netProgNetSendmsg6, netProgNetCreate)
	for _, a := range []attempt{
		{try: "tcp|127.1.0.1:8001", free: "server 127.1.0.1:8001, peer 127.1.0.1:8001"},
		{try: "tcp|[fd00::1]:8001", free: "server [fd00::1]:8001, peer [fd00::1]:8001"},
		{try: "fast open|127.1.0.1:8001", free: "server 127.1.0.1:8001, peer 127.1.0.1:8001"},
		{try: "send|127.1.0.1:8001", free: "received hello, from 127.1.0.1:8001"},
		{"raw|127.1.0.1:8001", "sent", "sent", "accept policy 127.1.0.1:8001: no rule"}, // a raw socket receives all packets
		{"tcp|127.2.0.1:8001", "server 127.2.0.1:8001, peer 127.2.0.1:8001", "EINPROGRESS", "packet policy 127.2.0.1:8001: no rule"},
		{"tcp|127.1.0.9:8001", "server 127.1.0.9:8001, peer 127.1.0.9:8001", "EINPROGRESS", "packet policy 127.1.0.9:8001: net.2"},
		{"tcp|[fd00::2]:8001", "server [fd00::2]:8001, peer [fd00::2]:8001", "EINPROGRESS", "packet policy [fd00::2]:8001: no rule"},
		{"tcp|10.1.2.3:443", "server 10.1.2.3:443, peer 10.1.2.3:443", "EINPROGRESS", "packet policy 10.1.2.3:443: no rule"},
		{"send|127.2.0.1:8001", "received hello, from 127.2.0.1:8001", "EPERM", "packet policy 127.2.0.1:8001: no rule"},
		{"send|[fd00::2]:8001", "received hello, from [fd00::2]:8001", "EPERM", "packet policy [fd00::2]:8001: no rule"},
		{"send|10.1.2.3:53", "received hello, from 10.1.2.3:53", "EPERM", "packet policy 10.1.2.3:53: no rule"},
		{"raw|127.2.0.1:8001", "sent", "EPERM", "packet policy 127.2.0.1:8001: no rule"},
	} {
		a.check(t, g)
	}
	tcp4 := fmt.Sprintf("127.0.0.1:%d", g.egress.TCP4)
	attempt{"tcp|" + tcp4, "egress knows nothing, peer " + tcp4, "EINPROGRESS", "packet egress " + tcp4 + ": no rule"}.check(t, g)

	// A connection's first data leaves as little as its end without any.
	received := make(chan string, 1)
	l, err := net.Listen("tcp", "127.2.0.7:8001")
	must(t, err)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		var b [16]byte
		n, _ := c.Read(b[:])
		received <- string(b[:n])
		_ = c.Close()
	}()
	run(t, g, "briefly", "fast open", "127.2.0.7:8001")
	if len(received) != 0 {
		t.Errorf("the first data came: %q", <-received)
	}
	run(t, nil, "fast open", "127.2.0.7:8001")
	if got := <-received; got != "hello" {
		t.Errorf("from outside, the first data was %q", got)
	}
}

// A source route leads a packet to another host first, which need not forward it.
func TestRoutes(t *testing.T) {
	needRoot(t)
	g := scene(t)
	for _, a := range []attempt{
		{"source route|127.2.0.1:0|127.1.0.1:8001", "sent", "EPERM", "packet route 127.2.0.1:0: no rule"},
		{"routing header|[fd00::2]:0|[fd00::1]:8001", "sent", "EPERM", "packet route [fd00::2]:0: no rule"},
	} {
		a.check(t, g)
	}
}

// A cgroup beneath the session's is the session's, too, and another session's rules are its own.
func TestWhoseCgroup(t *testing.T) {
	needRoot(t)
	server(t, "127.1.0.1:8001")
	server(t, "127.1.0.2:8001")
	one, two := begin(t, tcp("127.1.0.1", 8001)), begin(t, tcp("127.1.0.2", 8001))
	dir := filepath.Join(one.dir, "beneath")
	must(t, os.Mkdir(dir, 0o755))
	f, err := os.Open(dir)
	must(t, err)
	beneath := &testSession{group: f}
	defer func() {
		_ = f.Close()
		_ = removeGroup(dir)
	}()
	first, second := "server 127.1.0.1:8001, peer 127.1.0.1:8001", "server 127.1.0.2:8001, peer 127.1.0.2:8001"
	for _, x := range []struct {
		in   *testSession
		to   string
		want string
	}{
		{nil, "127.1.0.1:8001", first},
		{nil, "127.1.0.2:8001", second},
		{one, "127.1.0.1:8001", first},
		{one, "127.1.0.2:8001", "EACCES"},
		{beneath, "127.1.0.1:8001", first},
		{beneath, "127.1.0.2:8001", "EACCES"},
		{two, "127.1.0.1:8001", "EACCES"},
		{two, "127.1.0.2:8001", second},
	} {
		if got := run(t, x.in, "tcp", x.to); got != x.want {
			t.Errorf("%s: %q, want %q", x.to, got, x.want)
		}
	}
	if n, m := one.denied(), two.denied(); n != 2 || m != 1 {
		t.Errorf("%d and %d denials", n, m)
	}
}

// A socket is confined by the cgroup in which it was made. (Package loader also denies a confined process sockets from outside.)
func TestWhoseSocket(t *testing.T) {
	needRoot(t)
	server(t, "127.2.0.1:8001")
	g := begin(t)
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	outside := os.NewFile(uintptr(fd), "socket")
	defer outside.Close()
	if got := runAs(t, g, 0, []*os.File{outside}, "inherited", "127.2.0.1:8001"); got != "server 127.2.0.1:8001, peer 127.2.0.1:8001" {
		t.Errorf("one from outside, inside: %s", got)
	}

	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	theirs, ours := os.NewFile(uintptr(pair[0]), "pair"), os.NewFile(uintptr(pair[1]), "pair")
	defer ours.Close()
	if got := runAs(t, g, 0, []*os.File{theirs}, "hand out"); got != "handed out" {
		t.Fatal(got)
	}
	_ = theirs.Close()
	inside, err := receive(int(ours.Fd()))
	must(t, err)
	defer unix.Close(inside)
	if err := unix.Connect(inside, &unix.SockaddrInet4{Addr: [4]byte{127, 2, 0, 1}, Port: 8001}); !errors.Is(err, unix.EACCES) {
		t.Errorf("one from inside, outside: %v", err)
	}
}

func receive(from int) (int, error) {
	b, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(from, b, control, 0)
	if err != nil {
		return -1, err
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil || len(messages) != 1 {
		return -1, fmt.Errorf("%d control messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return -1, fmt.Errorf("%d descriptors: %w", len(fds), err)
	}
	return fds[0], nil
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
	expect("without anybody")
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

// A session doesn't choose the device by which an address is reached, and can't send redirected packets out of the machine by one.
func TestDevice(t *testing.T) {
	needRoot(t)
	device, err := tunnel()
	if err != nil {
		t.Skip("needs /dev/net/tun: ", err)
	}
	defer device.Close()
	server(t, "10.1.2.3:8001")
	g := begin(t, policy.NetRule{Host: "a.test", Scheme: "https", Allow: true}, tcp("127.1.0.1", 8001), tcp("10.1.2.3", 8001))
	granted := attempt{try: "tcp|10.1.2.3:8001", free: "server 10.1.2.3:8001, peer 10.1.2.3:8001"}
	granted.check(t, g)
	for _, option := range []string{"1|25", "1|62", "0|50", "41|50", "41|76"} { // SO_BINDTODEVICE, SO_BINDTOIFINDEX, IP_UNICAST_IF, IPV6_PKTINFO, IPV6_UNICAST_IF
		attempt{"option|" + option + "|tgtest0", "set", "EACCES", "setsockopt device: no rule"}.check(t, g)
	}
	attempt{try: "long option", free: "set"}.check(t, g)

	// Were a socket bound all the same.
	g.without(netProgNetOption)
	for _, a := range []attempt{
		granted,
		{"device|tgtest0|10.1.2.3:443", "EINPROGRESS", "EACCES", "connect device 10.1.2.3:443: no rule"},
		{"device|tgtest0|10.1.2.3:8001", "EINPROGRESS", "EACCES", "connect device 10.1.2.3:8001: no rule"},
		{"device|tgtest0|127.1.0.1:8001", "EINPROGRESS", "EACCES", "connect device 127.1.0.1:8001: no rule"},
	} {
		a.check(t, g)
	}
	g.without(netProgNetConnect4)
	for _, a := range []attempt{
		granted,
		{"device|tgtest0|10.1.2.3:8001", "EINPROGRESS", "EINPROGRESS", "packet device 10.1.2.3:8001: no rule"},
		{"device|tgtest0|127.1.0.1:8001", "EINPROGRESS", "EINPROGRESS", "packet device 127.1.0.1:8001: no rule"},
	} {
		a.check(t, g)
	}

	// Where everything is allowed that isn't denied, there's nothing that a device could lead away from.
	open := beginWith(t, compile(t, policy.Allow, policy.NetRule{Host: "127.2.0.1", Port: 8001}))
	attempt{try: "option|1|25|tgtest0", free: "set"}.check(t, open)
}

// tunnel makes a second device besides the loopback one.
func tunnel() (*os.File, error) {
	d := &netlink.Tuntap{
		LinkAttrs: netlink.LinkAttrs{Name: "tgtest0"}, Mode: netlink.TUNTAP_MODE_TUN, Flags: netlink.TUNTAP_NO_PI, NonPersist: true, Queues: 1,
	}
	if err := netlink.LinkAdd(d); err != nil {
		return nil, err
	}
	return d.Fds[0], nettest.Address("tgtest0", "10.9.9.9")
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
