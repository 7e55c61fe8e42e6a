package egress

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
)

// newEcho is a world with a raw port at which what is said comes back.
func newEcho(t testing.TB, serve func(net.Conn)) *world {
	w := newWorld(t, policy.NetRule{Host: "203.0.113.1", Port: 7000, Allow: true})
	l := w.listen("203.0.113.1:7000")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { serve(c); c.Close() }()
		}
	}()
	return w.start()
}

// Both directions at once, each ended by itself, whole.
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

// A connection that breaks on one side breaks on the other; one that can't be made is reset.
func TestBroken(t *testing.T) {
	w := newEcho(t, func(c net.Conn) {
		io.ReadFull(c, make([]byte, 1))
		c.(*net.TCPConn).SetLinger(0)
	})
	c := w.dial("203.0.113.1:7000")
	c.Write([]byte("x"))
	if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a reset server: %v", err)
	}
	w.mu.Lock()
	clear(w.routes)
	w.mu.Unlock()
	start := time.Now()
	c = w.dial("203.0.113.1:7000")
	c.Write([]byte("x"))
	if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) || time.Since(start) > 3*time.Second {
		t.Errorf("no server: %v after %s", err, time.Since(start))
	}
}

// Ten thousand quiet connections fit into 200 MiB: before and after a request, after a hello, and in a raw stream.
func TestIdle(t *testing.T) {
	if os.Getenv("EGRESS_IDLE") == "" {
		// In a process of its own, so that nothing else is measured.
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
	w.zone.set("a.com", "203.0.113.1")
	reply := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	for _, to := range []string{"203.0.113.1:80", "203.0.113.1:443", "203.0.113.1:7000"} {
		l := w.listen(to)
		go func() {
			var held []net.Conn
			defer func() { runtime.KeepAlive(held) }()
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				held = append(held, c)
				io.WriteString(c, reply)
			}
		}()
	}
	w.start()
	w.resolve("a.com", a4)
	hello := string(helloBytes(t, "a.com", nil))
	before := memoryInUse()
	clients := make([]net.Conn, n)
	for i := range clients {
		x := []struct{ to, say string }{
			{"203.0.113.1:80", ""},
			{"203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n"},
			{"203.0.113.1:443", hello},
			{"203.0.113.1:7000", "\x00"},
		}[i%4]
		clients[i] = w.dial(x.to)
		if x.say == "" {
			continue
		}
		io.WriteString(clients[i], x.say)
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

// BenchmarkThroughput is a large transfer through the server and without it.
func BenchmarkThroughput(b *testing.B) {
	serve := func(c net.Conn) {
		var n [8]byte
		if _, err := io.ReadFull(c, n[:]); err != nil {
			return
		}
		left, _ := strconv.Atoi(strings.TrimSpace(string(n[:])))
		buf := make([]byte, 256<<10)
		for range left {
			for range 4 {
				c.Write(buf)
			}
		}
	}
	run := func(b *testing.B, dial func() net.Conn) {
		const mib = 512
		buf := make([]byte, 256<<10)
		b.SetBytes(mib << 20)
		for b.Loop() {
			c := dial()
			fmt.Fprintf(c, "%8d", mib)
			var n int
			for {
				m, err := c.Read(buf)
				n += m
				if err != nil {
					break
				}
			}
			if n != mib<<20 {
				b.Fatalf("%d bytes", n)
			}
			c.Close()
		}
	}
	w := newEcho(b, serve)
	b.Run("direct", func(b *testing.B) {
		run(b, func() net.Conn {
			for _, to := range w.routes {
				c, err := net.Dial("tcp", to)
				if err != nil {
					b.Fatal(err)
				}
				return c
			}
			return nil
		})
	})
	b.Run("egress", func(b *testing.B) { run(b, func() net.Conn { return w.dial("203.0.113.1:7000") }) })
}

// BenchmarkConnect is a connection from beginning to end.
func BenchmarkConnect(b *testing.B) {
	w := newEcho(b, func(c net.Conn) { io.ReadFull(c, make([]byte, 1)) })
	for b.Loop() {
		c := w.dial("203.0.113.1:7000")
		c.Write([]byte("x"))
		io.Copy(io.Discard, c)
		c.Close()
	}
}
