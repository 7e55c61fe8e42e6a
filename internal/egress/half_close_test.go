package egress

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// When a client leaves a server that doesn't respond, the connection to the server ends, whatever the client has sent, also under TLS.
func TestGoneClients(t *testing.T) {
	w, server, client := newIntercepting(t)
	w.s.clientCheckInterval = 10 * time.Millisecond
	asked, left := make(chan struct{}, 1), make(chan struct{}, 1)
	for _, l := range []net.Listener{w.listen("203.0.113.1:80"), tls.NewListener(w.listen("203.0.113.1:443"), server)} {
		go nettest.Accept(l, func(c net.Conn) {
			c.Read(make([]byte, 4096))
			asked <- struct{}{}
			io.Copy(io.Discard, c)
			left <- struct{}{}
		})
	}
	w.start("a.com")
	closes := func(c *net.TCPConn) { c.Close() }
	for name, x := range map[string]struct {
		to, text string
		leave    func(c *net.TCPConn)
	}{
		"closed":       {"203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n", closes},
		"reset":        {"203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }},
		"half a body":  {"203.0.113.1:80", "POST / HTTP/1.1\r\nHost: a.com\r\nContent-Length: 9\r\n\r\nxy", closes},
		"a body":       {"203.0.113.1:80", "POST / HTTP/1.1\r\nHost: a.com\r\nContent-Length: 2\r\n\r\nxy", closes},
		"the next one": {"203.0.113.1:80", "GET / HTTP/1.1\r\nHost: a.com\r\n\r\nGET", closes},
		"under TLS":    {"203.0.113.1:443", "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n", closes},
	} {
		c := w.dial(x.to)
		send := io.Writer(c)
		if x.to == "203.0.113.1:443" {
			send = tls.Client(c, client)
		}
		if _, err := io.WriteString(send, x.text); err != nil {
			t.Fatal(err)
		}
		<-asked
		x.leave(c)
		select {
		case <-left:
		case <-time.After(testTimeout):
			t.Fatalf("%s: the connection to the server stays open", name)
		}
	}
}

// A client that has closed its sending side counts as present while it receives data.
func TestHalfClosed(t *testing.T) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	c, err := net.Dial("tcp4", l.Addr().String())
	must(t, err)
	defer c.Close()
	s, err := l.Accept()
	must(t, err)
	defer s.Close()
	at, got := s.(*net.TCPConn), neverChecked
	for range 2 {
		if clientGone(at, &got) {
			t.Error("an open connection counts as gone")
		}
	}
	c.(*net.TCPConn).CloseWrite()
	s.Read(make([]byte, 1)) // to the end
	for _, want := range []bool{false, true} {
		if clientGone(at, &got) != want {
			t.Errorf("gone: %v", !want)
		}
	}
	io.WriteString(s, "x")
	if !eventually(func() bool { return !clientGone(at, &got) }) {
		t.Fatal("a client that receives data counts as gone")
	}
}

// An idle connection of which one side has ended is closed. One of which no side has ended stays open.
func TestIdleHalfClosed(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "203.0.113.1", Port: 7000, Allow: true})
	w.s.halfCloseTimeout = 50 * time.Millisecond
	over := make(chan struct{})
	defer close(over)
	go nettest.Accept(w.listen("203.0.113.1:7000"), func(c net.Conn) {
		b := make([]byte, 1)
		for n, err := c.Read(b); err == nil; n, err = c.Read(b) {
			c.Write(b[:n])
		}
		<-over // it never closes its side
	})
	w.start()
	whole, half := w.dial("203.0.113.1:7000"), w.dial("203.0.113.1:7000")
	for _, c := range []net.Conn{whole, half} {
		io.WriteString(c, "x")
		if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
	}
	half.CloseWrite()
	half.SetReadDeadline(time.Now().Add(testTimeout))
	if _, err := io.Copy(io.Discard, half); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a half-closed connection stays open")
	}
	io.WriteString(whole, "x")
	if _, err := io.ReadFull(whole, make([]byte, 1)); err != nil {
		t.Errorf("an open connection: %v", err)
	}
}
