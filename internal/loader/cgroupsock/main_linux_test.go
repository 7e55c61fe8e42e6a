package cgroupsock

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/loader/bpffs"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
)

var must = childtest.Must

// ownNet marks the test that runs in a network namespace of its own, with a BPF file system of its own: other tests have sessions too.
const ownNet = "TOOLGUARD_TEST_OWN_NET"

// What is missing there.
var setUp, mounted error

func TestMain(m *testing.M) {
	if os.Getenv("TOOLGUARD_TEST_ORDER") == "" && os.Geteuid() == 0 && os.Getenv(ownNet) == "" {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Env = append(os.Environ(), ownNet+"=1")
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Unshareflags: unix.CLONE_NEWNS}
		if err := cmd.Run(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if os.Getenv(ownNet) != "" {
		setUp = errors.Join(nettest.Loopback("10.1.2.3", "fd00::1", "fd00::2"), pings(), fastOpen())
		mounted = unix.Mount("bpf", bpffs.FS, "bpf", 0, "mode=0700")
	}
	childtest.Main(m, try)
}

// pings has root make ICMP sockets (ping_group_range).
func pings() error { return os.WriteFile("/proc/sys/net/ipv4/ping_group_range", []byte("0 0"), 0) }

// fastOpen has connections in this namespace begin with data: at both ends, and without a cookie (tcp_fastopen).
func fastOpen() error { return os.WriteFile("/proc/sys/net/ipv4/tcp_fastopen", []byte("1543"), 0) }

// testSession is a session, with the test as its egress.
type testSession struct {
	*Session
	t      testing.TB
	dir    string // of its cgroup
	group  *os.File
	policy *policy.Compiled
	egress Egress
	kernel *Kernel

	mu     sync.Mutex
	events []Event
}

var groups atomic.Int32

// begin makes a session with its egress.
func begin(t testing.TB, rules ...policy.NetRule) *testSession {
	t.Helper()
	return beginWith(t, compile(t, policy.Deny, rules...))
}

func beginWith(t testing.TB, c *policy.Compiled) *testSession {
	t.Helper()
	g := prepare(t, c)
	g.kernel = NewKernel(g.Descriptors())
	g.serve()
	g.start()
	return g
}

// serve has the session's egress wait.
func (g *testSession) serve() {
	g.t.Helper()
	g.egress = Egress{TCP4: g.serveTCP("127.0.0.1:0"), TCP6: g.serveTCP("[::1]:0"), UDP4: serveUDP(g.t, "127.0.0.1:0"), UDP6: serveUDP(g.t, "[::1]:0")}
	g.egress.Sockets = socketsAt(g.egress)
}

// waiting are the descriptors of what waits here, by network and port.
var waiting sync.Map

func wait(t testing.TB, network string, at net.Addr, c syscall.Conn) uint16 {
	t.Helper()
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { waiting.Store(fmt.Sprint(network, addrOf(at).Port()), int(fd)) })
	}
	must(t, err)
	return addrOf(at).Port()
}

// socketsAt are the descriptors of what waits at ports.
func socketsAt(e Egress) (fds []int) {
	for _, at := range []string{fmt.Sprint("tcp", e.TCP4), fmt.Sprint("tcp", e.TCP6), fmt.Sprint("udp", e.UDP4), fmt.Sprint("udp", e.UDP6)} {
		if fd, ok := waiting.Load(at); ok {
			fds = append(fds, fd.(int))
		}
	}
	return fds
}

// prepare makes a session that isn't begun.
func prepare(t testing.TB, c *policy.Compiled) *testSession {
	t.Helper()
	facts := cgroup.Probe()
	if facts.Mount == "" {
		t.Skip("needs cgroup v2: ", facts.Why)
	}
	groups.Add(1)
	g := &testSession{t: t, policy: c}
	var err error
	if g.dir, err = os.MkdirTemp(filepath.Join(facts.Mount, facts.Base), "toolguard-test-"); err != nil {
		t.Fatal(err)
	}
	if g.group, err = os.Open(g.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = g.group.Close()
		if err := removeGroup(g.dir); err != nil {
			t.Error(err)
		}
	})
	if g.Session, err = Load(); err != nil {
		t.Fatalf("%+v", err)
	}
	return g
}

// removeGroup removes a cgroup whose processes have ended: they count for a while.
func removeGroup(dir string) error {
	err := os.Remove(dir)
	for end := time.Now().Add(patience); errors.Is(err, unix.EBUSY) && time.Now().Before(end); time.Sleep(time.Millisecond) {
		err = os.Remove(dir)
	}
	return err
}

func (g *testSession) start() {
	g.t.Helper()
	img, err := NewImage(g.policy, 1)
	must(g.t, err)
	must(g.t, g.Begin(uint64(groups.Load()), int(g.group.Fd()), img, g.egress))
	if err := g.Listen(func(e Event) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.events = append(g.events, e)
	}); err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() {
		if g.maps != nil {
			if _, err := g.End(); err != nil {
				g.t.Error(err)
			}
		}
	})
}

// serveTCP is egress: it answers with where a connection was going.
func (g *testSession) serveTCP(at string) uint16 {
	return listenTCP(g.t, at, func(c *net.TCPConn) string {
		to, _, err := g.kernel.Original(addrOf(c.RemoteAddr()), addrOf(c.LocalAddr()))
		if err != nil {
			return "egress knows nothing"
		}
		return "egress for " + to.String()
	})
}

func addrOf(a net.Addr) netip.AddrPort { return netip.MustParseAddrPort(a.String()) }

func listenTCP(t testing.TB, at string, answer func(*net.TCPConn) string) uint16 {
	t.Helper()
	l, port := plainTCP(t, at)
	go nettest.Accept(l, func(c net.Conn) {
		fmt.Fprintln(c, answer(c.(*net.TCPConn)))
		_ = c.(*net.TCPConn).CloseWrite()
		_, _ = io.Copy(io.Discard, c) // unread data would reset the connection before the answer arrives
	})
	return port
}

// plainTCP waits at an address, by one socket: an MPTCP one has others beneath.
func plainTCP(t testing.TB, at string) (net.Listener, uint16) {
	t.Helper()
	var plain net.ListenConfig
	plain.SetMultipathTCP(false)
	l, err := plain.Listen(t.Context(), "tcp", at)
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l, wait(t, "tcp", l.Addr(), l.(*net.TCPListener))
}

// server answers everybody with its address.
func server(t testing.TB, at string) {
	t.Helper()
	listenTCP(t, at, func(c *net.TCPConn) string { return "server " + c.LocalAddr().String() })
	serveUDP(t, at)
}

func serveUDP(t testing.TB, at string) uint16 {
	t.Helper()
	return answerUDP(t, at, func(_ net.PacketConn, _ net.Addr, datagram []byte) string { return "received " + string(datagram) })
}

func answerUDP(t testing.TB, at string, answer func(c net.PacketConn, from net.Addr, datagram []byte) string) uint16 {
	t.Helper()
	c, err := net.ListenPacket("udp", at)
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	go func() {
		var b [512]byte
		for {
			n, from, err := c.ReadFrom(b[:])
			if err != nil {
				return
			}
			_, _ = c.WriteTo([]byte(answer(c, from, b[:n])), from)
		}
	}()
	return wait(t, "udp", c.LocalAddr(), c.(*net.UDPConn))
}

// run has a child do something: inside a session, or outside of any for nil.
func run(t testing.TB, g *testSession, order ...string) string {
	t.Helper()
	return runAs(t, g, 0, nil, order...)
}

func runAs(t testing.TB, g *testSession, uid int, files []*os.File, order ...string) string {
	t.Helper()
	cmd := childtest.Command(t, uid, order)
	cmd.ExtraFiles = files
	if g != nil {
		if cmd.SysProcAttr == nil {
			cmd.SysProcAttr = &syscall.SysProcAttr{}
		}
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(g.group.Fd())
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: child: %v", order, err)
	}
	var answer string
	if err := json.Unmarshal(out, &answer); err != nil {
		t.Fatalf("%v: child answered %q: %v", order, out, err)
	}
	return answer
}

// line is an event as the tests compare it.
func (g *testSession) line(e Event) string {
	at := ""
	if e.At.Port() != 0 || !e.At.Addr().IsUnspecified() {
		at = " " + e.At.String()
	}
	by := "no rule"
	if e.Rule >= 0 {
		by = g.policy.Rules[e.Rule].ID
	}
	return fmt.Sprintf("%s %s%s: %s", e.Op, e.Why, at, by)
}

func (g *testSession) lines() (all []string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, e := range g.events {
		all = append(all, g.line(e))
	}
	return all
}

// reported waits for an event.
func (g *testSession) reported(line string) {
	g.t.Helper()
	var all []string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if all = g.lines(); slices.Contains(all, line) {
			return
		}
	}
	g.t.Errorf("no event %q among %q", line, all)
}

// denied is the number of denials until now.
func (g *testSession) denied() uint64 {
	g.t.Helper()
	return g.Counts().Denied
}

func (g *testSession) clear() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.events = nil
}

func compile(t testing.TB, defaultAction policy.DefaultAction, rules ...policy.NetRule) *policy.Compiled {
	t.Helper()
	c, err := compiled(defaultAction, rules...)
	must(t, err)
	return c
}

func compiled(defaultAction policy.DefaultAction, rules ...policy.NetRule) (*policy.Compiled, error) {
	layer := policy.SourceLayer{Authority: policy.Session, Net: rules}
	layer.Defaults[policy.Net] = defaultAction
	return policy.Compile(&policy.Source{
		Name: "test", Workspace: "/", Home: "/", Path: "/usr/bin:/bin", Layers: []policy.SourceLayer{layer},
	}, tree{})
}

func tcp(host string, port int) policy.NetRule {
	return policy.NetRule{Host: host, Port: port, Allow: true}
}

func udp(host string, port int) policy.NetRule {
	return policy.NetRule{Host: host, Port: port, Protocol: "udp", Allow: true}
}

func listening(r policy.NetRule) policy.NetRule {
	r.Listen = true
	return r
}

// tree is a machine without files.
type tree struct{}

func (tree) Lstat(path string) (fspath.Kind, error) {
	if path == "/" {
		return fspath.Dir, nil
	}
	return fspath.File, os.ErrNotExist
}
func (tree) Readlink(string) (string, error)            { return "", os.ErrNotExist }
func (tree) Mounts() ([]fspath.Mount, error)            { return nil, nil }
func (tree) File(string) (fspath.FileID, uint64, error) { return fspath.FileID{}, 1, nil }

func trimmed(b []byte) string { return strings.TrimSpace(string(b)) }

func needRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if setUp != nil {
		t.Skip("needs a loopback device with IPv4 and IPv6 and TCP fast open: ", setUp)
	}
}

func setReadDeadline(t testing.TB, c net.PacketConn) {
	t.Helper()
	must(t, c.SetReadDeadline(time.Now().Add(200*time.Millisecond)))
}
