package egress

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// On a raw port the first bytes of a server that sends first arrive at once, and a client that sends later is still decided on.
func TestServerFirst(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "mail.com", Port: 2525, Allow: true}, policy.NetRule{Host: "evil.com", Port: 2525, Scheme: "https"})
	w.zone.set("mail.com", "203.0.113.2")
	w.zone.set("evil.com", "203.0.113.2")
	send, got := make(chan string, 1), make(chan string, 1)
	go nettest.Accept(w.listen("203.0.113.2:2525"), func(c net.Conn) {
		go func() {
			if s, ok := <-send; ok {
				io.WriteString(c, s)
			}
		}()
		b, _ := io.ReadAll(c)
		got <- string(b)
	})
	w.start("mail.com")

	begun := time.Now()
	c := w.dial("203.0.113.2:2525")
	send <- "220 "
	b := make([]byte, 4)
	if _, err := io.ReadFull(c, b); err != nil || string(b) != "220 " {
		t.Errorf("%v %q", err, b)
	}
	t.Logf("the first bytes of the server arrived after %s", time.Since(begun))
	io.WriteString(c, "EHLO x")
	c.CloseWrite()
	if s := <-got; s != "EHLO x" {
		t.Errorf("the server got %q", s)
	}

	c = w.dial("203.0.113.2:2525")
	time.Sleep(2 * rawLineTimeout) // longer than an incomplete line may take
	c.Write(helloBytes(t, "evil.com", nil))
	if b, err := io.ReadAll(c); err != nil || string(b) != string(accessDenied) {
		t.Errorf("a denied name: %v %x", err, b)
	}
	c.Close()
	if s := <-got; s != "" {
		t.Errorf("the server got %x", s)
	}
	w.wantDenials("rule_denies net.2 https://evil.com:2525")

	c = w.dial("203.0.113.2:2525") // an incomplete request line is forwarded after the time-out
	io.WriteString(c, "QUIT")
	time.Sleep(2 * rawLineTimeout)
	c.CloseWrite()
	if s := <-got; s != "QUIT" {
		t.Errorf("the server got %q", s)
	}
	c.Close()

	w.dial("203.0.113.2:2525").Close() // neither side sends
	if !eventually(w.isIdle) {
		t.Fatal("a connection without data is still served")
	}
}

// A name that is allowed by default is looked up on a port without a rule of its own.
func TestAllowedByDefault(t *testing.T) {
	l := policy.SourceLayer{Net: []policy.NetRule{denied("other.com"), {Host: "web.com", Scheme: "http", Port: 8080, PathPrefix: "/admin"}}}
	l.Defaults[policy.Net] = policy.Allow
	w := newWorldOf(t, l)
	w.zone.set("other.com", "203.0.113.2")
	w.serve("203.0.113.2:8080", &cdn{})
	w.start()
	for host, want := range map[string]int{"other.com": 200, "web.com": 403} {
		w.wantStatus(host, "203.0.113.2:8080", getRequest(host), want)
	}
}

// If the server sends before the wait for the client begins, that wait ends at once.
func TestServerFirstEndsWait(t *testing.T) {
	w := newWorld(t)
	l := w.listen("203.0.113.2:2525")
	c, err := net.Dial("tcp4", l.Addr().String())
	must(t, err)
	defer c.Close()
	f := &conn{s: w.s, conn: c}
	f.conn.SetReadDeadline(time.Now())
	if _, err := f.detectProtocol(true); !errors.Is(err, errNoData) {
		t.Errorf("%v, want %v", err, errNoData)
	}
}
