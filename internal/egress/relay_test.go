package egress

import (
	"bufio"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// newEcho returns a world with a raw port with an echo server.
func newEcho(t testing.TB, serve func(net.Conn)) *world {
	w := newWorld(t, policy.NetRule{Host: "203.0.113.1", Port: 7000, Allow: true})
	go nettest.Accept(w.listen("203.0.113.1:7000"), serve)
	return w.start()
}

// Both directions at once, each complete and ended separately.
func TestRelay(t *testing.T) {
	w := newEcho(t, func(c net.Conn) { io.Copy(c, c) })
	for range 5 {
		c := w.dial("203.0.113.1:7000")
		const size = 8 << 20
		sum := make(chan [32]byte)
		go func() {
			h := sha256.New()
			io.Copy(io.MultiWriter(c, h), io.LimitReader(rand.Reader, size))
			c.CloseWrite()
			sum <- [32]byte(h.Sum(nil))
		}()
		h := sha256.New()
		n, err := io.Copy(h, c)
		if want := <-sum; err != nil || n != size || [32]byte(h.Sum(nil)) != want {
			t.Errorf("%d bytes came back, %v, the same: %v", n, err, [32]byte(h.Sum(nil)) == want)
		}
	}
}

// A reset on one side is a reset on the other. If the server can't be dialed the connection is reset.
func TestBroken(t *testing.T) {
	w := newEcho(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 1))
		c.(*net.TCPConn).SetLinger(0)
	})
	broken := func(what string) {
		t.Helper()
		c := w.dial("203.0.113.1:7000")
		_, werr := c.Write([]byte("x"))
		if _, err := io.ReadAll(c); !errors.Is(errors.Join(werr, err), syscall.ECONNRESET) {
			t.Errorf("%s: %v", what, err)
		}
	}
	broken("a reset server")
	w.mu.Lock()
	clear(w.routes)
	w.mu.Unlock()
	broken("no server")
}

// Ten thousand idle connections fit into 200 MiB: before and after a request, after a hello, and in a raw stream.
func TestIdle(t *testing.T) {
	if os.Getenv("EGRESS_IDLE") == "" {
		// In a process of its own, to measure nothing else.
		cmd := exec.Command(os.Args[0], "-test.run=^TestIdle$", "-test.v")
		cmd.Env = append(os.Environ(), "EGRESS_IDLE=1")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Logf("%s", out)
		return
	}
	const n = 2000
	w := newWorld(t, allow("a.com"), policy.NetRule{Host: "203.0.113.1", Port: 7000, Allow: true})
	reply := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for _, to := range []string{"203.0.113.1:80", "203.0.113.1:443", "203.0.113.1:7000"} {
		l := w.listen(to)
		go func() {
			var open []net.Conn
			defer func() { runtime.KeepAlive(open) }()
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				open = append(open, c)
				io.WriteString(c, reply)
			}
		}()
	}
	w.start("a.com")
	hello := string(helloBytes(t, "a.com", nil))
	before := memoryInUse()
	clients := make([]net.Conn, n)
	for i := range clients {
		x := []struct{ to, send string }{
			{"203.0.113.1:80", ""},
			{"203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n"},
			{"203.0.113.1:443", hello},
			{"203.0.113.1:7000", "\x00"},
		}[i%4]
		clients[i] = w.dial(x.to)
		if x.send == "" {
			continue
		}
		io.WriteString(clients[i], x.send)
		if got := make([]byte, len(reply)); func() error { _, err := io.ReadFull(clients[i], got); return err }() != nil || string(got) != reply {
			t.Fatalf("%q", got)
		}
	}
	used := (memoryInUse() - before) / n
	t.Logf("%d bytes for each connection, its ends included; resident %s", used, resident(t))
	if used > 200<<20/10000 {
		t.Error("that's too much")
	}
	runtime.KeepAlive(clients)
}

func memoryInUse() uint64 {
	time.Sleep(300 * time.Millisecond)
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse + m.StackInuse
}

func resident(t *testing.T) string {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	_, rss, _ := strings.Cut(string(status), "VmRSS:")
	rss, _, _ = strings.Cut(rss, "\n")
	return strings.TrimSpace(rss)
}

// BenchmarkThroughput measures a large transfer through the server, and one without it right before, as both depend on the machine's load.
// Both ends are in another process.
func BenchmarkThroughput(b *testing.B) {
	const mib = 512
	w := newWorld(b, policy.NetRule{Host: "203.0.113.1", Port: 7000, Allow: true})
	to := netip.MustParseAddrPort("203.0.113.1:7000")
	w.anyDestination = to
	w.start()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "EGRESS_TRANSFER="+w.tcp.String())
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(b, err)
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	defer cmd.Wait()
	defer in.Close()
	lines := bufio.NewScanner(out)
	lines.Scan()
	w.mu.Lock()
	w.routes[to] = lines.Text()
	w.mu.Unlock()
	var took [2]time.Duration
	for b.Loop() {
		for i, how := range []string{"direct", "egress"} {
			fmt.Fprintln(in, how, mib)
			lines.Scan()
			d, err := time.ParseDuration(lines.Text())
			must(b, err)
			took[i] += d
		}
	}
	rate := func(d time.Duration) float64 { return float64(b.N) * mib / d.Seconds() }
	b.ReportMetric(rate(took[0]), "direct-MiB/s")
	b.ReportMetric(rate(took[1]), "egress-MiB/s")
	b.ReportMetric(100*took[0].Seconds()/took[1].Seconds(), "%")
}

func TestMain(m *testing.M) {
	if egress := os.Getenv("EGRESS_TRANSFER"); egress != "" {
		if err := transfers(egress); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	m.Run()
}

// transfers is both ends of BenchmarkThroughput: a server, and a client that reports the time of each transfer.
func transfers(egress string) error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go nettest.Accept(l, func(c net.Conn) {
		var mib int
		fmt.Fscanln(c, &mib)
		for buf := make([]byte, 1<<20); mib > 0; mib-- {
			c.Write(buf)
		}
	})
	fmt.Println(l.Addr())
	buf := make([]byte, 256<<10)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var how string
		var mib int
		fmt.Sscan(in.Text(), &how, &mib)
		to := l.Addr().String()
		if how == "egress" {
			to = egress
		}
		start := time.Now()
		c, err := net.Dial("tcp4", to)
		if err != nil {
			return err
		}
		fmt.Fprintln(c, mib)
		n := 0
		for err == nil {
			var m int
			m, err = c.Read(buf)
			n += m
		}
		c.Close()
		if n != mib<<20 {
			return fmt.Errorf("%d bytes", n)
		}
		fmt.Println(time.Since(start))
	}
	return nil
}

// BenchmarkConnect measures a connection from dial to close.
func BenchmarkConnect(b *testing.B) {
	w := newEcho(b, func(c net.Conn) { io.ReadFull(c, make([]byte, 1)) })
	for b.Loop() {
		c := w.dial("203.0.113.1:7000")
		c.Write([]byte("x"))
		io.Copy(io.Discard, c)
		c.Close()
	}
}
