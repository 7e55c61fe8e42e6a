package cgroupsock

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// CloseDenied closes the sockets that the rules in force don't grant, and no others; then CloseOpen closes all open ones. A nested session
// has a cgroup beneath that one's.
func TestClose(t *testing.T) {
	needRoot(t)
	for _, beneath := range []string{".", "within", "within/within"} {
		t.Run(beneath, func(t *testing.T) { closes(t, beneath) })
	}
}

func closes(t *testing.T, beneath string) {
	const gone, stays = "ECONNABORTED", "open"
	rows := []struct{ opens, at, closed string }{
		{"tcp", "127.1.0.1:8001", gone},
		{"tcp", "127.2.0.1:8001", stays},
		{"tcp", "6 127.1.0.1:8001", gone},
		{"tcp", "[fd00::1]:8001", gone},
		{"tcp", "[fd00::2]:8001", stays},
		{"tcp", "127.3.0.1:5432", gone},  // by a name
		{"tcp", "127.4.0.1:5432", stays}, // by one that is still granted, though its answer has expired
		{"tcp", "127.9.0.1:443", stays},  // redirected to egress
		{"bind later", "127.1.0.1:8001", gone},
		{"bind before", "127.1.0.1:8001", gone},
		{"accept", "127.0.0.1:9001", gone},
		{"accept", "127.0.0.1:9002", stays},
		{"listen", "127.0.0.1:9003", gone},
		{"listen", "127.0.0.1:9003", gone}, // SO_REUSEPORT: the kernel finds another one by its address
		{"listen", "127.0.0.1:9003", gone},
		{"listen", "127.0.0.1:9003", gone},
		{"listen", "127.0.0.1:9004", stays},
		{"listen", "127.0.0.1:0", stays}, // no process reaches it, before or after
		{"udp", "127.1.0.1:8001", gone + " EACCES"},
		{"udp", "127.2.0.1:8001", stays + " sent"},
		{"udp", "127.3.0.1:5432", gone + " EACCES"},
		{"udp", "127.4.0.1:5432", stays + " sent"},
		{"udp", "127.5.0.1:8001", stays + " EACCES"}, // is granted neither before nor after
		{"udp", "127.9.0.1:53", stays + " sent"},
	}
	rules := func(addrs []string, ports ...int) (all []policy.NetRule) {
		for _, a := range addrs {
			all = append(all, tcp(a, 8001), udp(a, 8001))
		}
		for _, p := range ports {
			all = append(all, listening(tcp("127.0.0.1", p)))
		}
		return append(all, policy.NetRule{Host: "a.test", Allow: true})
	}
	order := []string{"keep open"}
	for _, r := range rows {
		order = append(order, r.opens, r.at)
		if a, err := netip.ParseAddrPort(strings.TrimPrefix(r.at, "6 ")); r.opens == "tcp" && err == nil && a.Port() != 443 {
			if _, there := waiting.Load("kept " + a.String()); !there {
				l, _ := plainTCP(t, a.String())
				waiting.Store("kept "+a.String(), true)
				go nettest.Accept(l, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
			}
		}
	}
	defer waiting.Clear()
	g := begin(t, rules([]string{"127.1.0.1", "127.2.0.1", "fd00::1", "fd00::2"}, 9001, 9002, 9003, 9004, 9005)...)
	named := func(generation uint32, at string, d time.Duration) {
		for _, proto := range []string{"tcp", "udp"} {
			must(t, g.kernel.Permit(generation, proto, netip.MustParseAddrPort(at), time.Now().Add(d)))
		}
	}
	named(1, "127.3.0.1:5432", time.Minute)
	named(1, "127.4.0.1:5432", time.Minute)

	k := keepOpen(t, g, beneath, order)
	g.clear()
	named(2, "127.4.0.1:5432", -time.Minute)
	g.reload(2, rules([]string{"127.2.0.1", "fd00::2"}, 9002, 9004, 9005)...)
	d, err := OpenDiag()
	must(t, err)
	defer d.Close()
	want := 0
	for _, r := range rows {
		if strings.HasPrefix(r.closed, gone) {
			want++
			if r.opens == "accept" { // what has accepted it, too
				want++
			}
		}
	}
	if n, err := g.CloseDenied(d); n != want || err != nil {
		t.Errorf("%d are closed, want %d: %v", n, want, err)
	}
	for i, is := range k.states() {
		if is != rows[i].closed {
			t.Errorf("%s %s: %s, want %s", rows[i].opens, rows[i].at, is, rows[i].closed)
		}
	}
	must(t, os.Mkdir(g.dir+"/other", 0o755))
	defer func() { must(t, removeGroup(g.dir+"/other")) }()
	if n, err := g.CloseOpenIn(d, g.dir+"/other"); n != 0 || err != nil {
		t.Errorf("%d of another cgroup's are closed, %v", n, err)
	}
	if n, err := g.CloseOpenIn(d, filepath.Join(g.dir, beneath)); err != nil || n < len(rows)-want {
		t.Errorf("at the end %d are closed, %v", n, err)
	}
	for i, is := range k.states() {
		if !strings.HasPrefix(is, gone) {
			t.Errorf("at the end: %s %s: %s", rows[i].opens, rows[i].at, is)
		}
	}
}

// openSockets is a child in a session that keeps sockets open.
type openSockets struct {
	t      *testing.T
	in     io.Writer
	report *bufio.Reader
}

func keepOpen(t *testing.T, g *testSession, beneath string, order []string) *openSockets {
	t.Helper()
	group := filepath.Join(g.dir, beneath)
	must(t, os.MkdirAll(group, 0o755))
	t.Cleanup(func() {
		for dir := group; dir != g.dir; dir = filepath.Dir(dir) {
			must(t, removeGroup(dir))
		}
	})
	at, err := os.Open(group)
	must(t, err)
	defer at.Close()
	r, w, err := os.Pipe()
	must(t, err)
	cmd := childtest.Command(t, 0, order)
	in, err := cmd.StdinPipe()
	must(t, err)
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = os.Stderr, os.Stderr, []*os.File{w}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(at.Fd())
	must(t, cmd.Start())
	_ = w.Close()
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		_ = r.Close()
	})
	k := &openSockets{t, in, bufio.NewReader(r)}
	for {
		switch line := k.line(); line {
		case "all are open":
			return k
		default: // it accepts there
			c, err := net.Dial("tcp", line)
			must(t, err)
			t.Cleanup(func() { _ = c.Close() })
		}
	}
}

func (k *openSockets) line() string {
	line, err := k.report.ReadString('\n')
	must(k.t, err)
	return strings.TrimSpace(line)
}

// states returns each socket's state.
func (k *openSockets) states() []string {
	_, err := fmt.Fprintln(k.in)
	must(k.t, err)
	return strings.Split(k.line(), ",")
}

// tryKeepOpen opens sockets, writes to descriptor 3 when all are open, and for each line of its input writes their states.
func tryKeepOpen(args []string) string {
	report := os.NewFile(3, "report")
	var fds []int
	for i := 0; i < len(args); i += 2 {
		do, where := args[i], args[i+1]
		fd, sa := socket(where, kinds[do]|kinds[map[bool]string{true: "tcp"}[do != "udp"]], 0)
		switch do {
		case "listen", "accept":
			sure(do, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
			sure(do, unix.Bind(fd, sa))
			sure(do, unix.Listen(fd, 1))
			if do == "accept" {
				fmt.Fprintln(report, where)
				fd, _, _ = unix.Accept(fd)
			}
		case "bind before": // to where it may be waited for, still
			sure(do, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1))
			sure(do, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 9005}))
			sure(do, unix.Connect(fd, sa))
		default:
			sure(do+where, unix.Connect(fd, sa))
			if do == "bind later" { // which fails in the kernel, after the hook
				_ = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}, Port: 9005})
			}
		}
		fds = append(fds, fd)
	}
	fmt.Fprintln(report, "all are open")
	closed := map[int]string{}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var all []string
		for i, fd := range fds {
			if n, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || n != 0 {
				closed[fd] = unix.ErrnoName(unix.Errno(n))
			}
			is := cmp.Or(closed[fd], "open")
			if args[2*i] == "udp" {
				_, sa := at(args[2*i+1])
				sent := " sent"
				if err := unix.Sendto(fd, []byte("hello"), 0, sa); err != nil {
					sent = " " + errName(err)
				}
				is += sent
			}
			all = append(all, is)
		}
		fmt.Fprintln(report, strings.Join(all, ","))
	}
	return ""
}
