package cgroupsock

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

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
