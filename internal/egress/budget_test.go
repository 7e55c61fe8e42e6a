package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// wantReserved waits until some memory is reserved.
func (w *world) wantReserved(want int64, when string) {
	w.t.Helper()
	if !eventually(func() bool { return w.s.budget.used.Load() == want }) {
		w.t.Fatalf("%d bytes are reserved %s, want %d", w.s.budget.used.Load(), when, want)
	}
}

// A request costs its head, and its body as far as it is buffered.
func TestRequestCost(t *testing.T) {
	for length, body := range map[int64]int64{-1: maxScratch, 0: 0, 5: 5, maxScratch: maxScratch, maxScratch + 1: maxScratch} {
		r := &http.Request{RequestURI: "/abc", Host: "a.com", Header: http.Header{"Name": {"value", "v"}}, ContentLength: length}
		if got, want := requestCost(r), streamCost+body+int64(len("/abca.comNamevalueNamev")); got != want {
			t.Errorf("with a body of %d: %d, want %d", length, got, want)
		}
	}
}

// The memory of a session's connections is limited: what exceeds it is denied and reported, and what ends frees memory.
func TestBudget(t *testing.T) {
	var arrived, answer sync.WaitGroup
	answer.Add(1)
	w, cfg := newIntercepted(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			arrived.Done()
			answer.Wait()
		}
	}), nil)
	w.resolve("a.com", a4)
	used := w.s.budget.used.Load
	fill := func(but int64) (empty func()) {
		n := maxBudget - used() - but
		release, err := w.s.budget.reserve(n)
		must(t, err)
		return release
	}
	cl := w.tlsClient(cfg)
	get := func(path string) int { return w.status(cl, "https://a.com"+path) }
	// a connection
	empty := fill(h2ConnCost)
	if _, err := cl.Get("https://a.com/"); err == nil {
		t.Error("a connection without memory is answered")
	}
	w.wantDenials("limit https://a.com:443")
	empty()
	if got := get("/"); got != 200 {
		t.Errorf("with memory: %d", got)
	}
	// streams on a connection
	quiet := used()
	arrived.Add(2)
	done := make(chan int)
	for range 2 {
		go func() { done <- get("/wait") }()
	}
	arrived.Wait()
	if got := used() - quiet; got < 2*streamCost || got > 2*(streamCost+shortHead) {
		t.Errorf("two streams: %d", got)
	}
	empty = fill(streamCost)
	if got := get("/"); got != 503 {
		t.Errorf("a stream without memory: %d", got)
	}
	w.wantDenials("limit https://a.com:443")
	answer.Done()
	if got := []int{<-done, <-done}; !slices.Equal(got, []int{200, 200}) {
		t.Errorf("the earlier streams: %d", got)
	}
	if got := get("/"); got != 200 {
		t.Errorf("a stream when others have ended: %d", got)
	}
	// long heads of HTTP/1
	w.serve("203.0.113.1:80", &cdn{})
	long := "GET / HTTP/1.1\r\nHost: a.com\r\nX: " + strings.Repeat("x", shortHead) + "\r\n\r\n"
	w.wantStatus("a long head", "203.0.113.1:80", long, 200)
	empty()
	empty = fill(0)
	w.wantStatus("a long head without memory", "203.0.113.1:80", long, 503)
	w.wantDenials("limit http://a.com:80")
	w.wantStatus("a short one", "203.0.113.1:80", getRequest("a.com"), 200)
	empty()
	// everything is released
	cl.CloseIdleConnections()
	w.wantReserved(0, "at the end")
}

// A second connection to a server that allows few streams on one costs memory too.
func TestBudgetOfServers(t *testing.T) {
	w, server, client := newIntercepting(t)
	arrived, answer := make(chan struct{}, 2), make(chan struct{})
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/wait":
			arrived <- struct{}{}
			<-answer
		case "/hang":
			arrived <- struct{}{}
			<-r.Context().Done()
		}
	}))
	srv.Listener, srv.TLS, srv.EnableHTTP2, srv.Config.HTTP2 = w.listen("203.0.113.1:443"), server, true, &http.HTTP2Config{MaxConcurrentStreams: 1}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	w.start()
	cl := w.tlsClient(client)
	get := func(path string) int { return w.status(cl, "https://a.com"+path) }
	get("/") // to get the server's settings
	first := make(chan int)
	go func() { first <- get("/wait") }()
	<-arrived
	release, err := w.s.budget.reserve(maxBudget - w.s.budget.used.Load() - h2ConnCost)
	must(t, err)
	if got := get("/"); got != 503 {
		t.Errorf("a connection without memory: %d", got)
	}
	w.wantDenials("limit https://a.com:443")
	release()
	if got := get("/"); got != 200 || w.dials() != 2 {
		t.Errorf("with memory: %d, by %d connections", got, w.dials())
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		req, _ := http.NewRequestWithContext(ctx, "GET", "https://a.com/hang", nil)
		_, err := cl.Do(req)
		left <- err
	}()
	<-arrived // on the second connection
	close(answer)
	if got := <-first; got != 200 {
		t.Errorf("the first: %d", got)
	}
	leave()
	<-left
	released := func() bool {
		cl.CloseIdleConnections() // a connection may become idle late
		return w.s.budget.used.Load() == 0
	}
	if !eventually(released) {
		t.Fatalf("%d bytes are reserved for a client that has gone", w.s.budget.used.Load())
	}
}

// A long head of a response needs memory until it is forwarded, and a head that has begun must be complete in time.
func TestBudgetOfResponses(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	w.s.helloTimeout = time.Second
	long := "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", shortHead) + "\r\n"
	go nettest.Accept(w.listen("203.0.113.1:80"), func(c net.Conn) {
		r, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return
		}
		io.WriteString(c, long)
		if r.URL.Path == "/whole" {
			io.WriteString(c, "Content-Length: 2\r\n\r\n")
		}
		io.Copy(io.Discard, c)
	})
	w.start("a.com")
	ask := func(path string) (net.Conn, *http.Response, error) {
		c := w.dial("203.0.113.1:80")
		io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a.com\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		return c, resp, err
	}
	c, resp, err := ask("/whole")
	if err != nil || resp.StatusCode != 200 {
		t.Fatalf("a long head: %v", err)
	}
	w.wantReserved(0, "for a head that was passed on, while the body is waited for")
	c.Close()
	c, _, err = ask("/half")
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a head: %v", err)
	}
	c.Close()
	w.wantReserved(0, "for half a head that has ended")
	if _, err := w.s.budget.reserve(maxBudget); err != nil {
		t.Fatal(err)
	}
	if _, resp, err := ask("/whole"); err != nil || resp.StatusCode != 503 {
		t.Errorf("a long head without memory: %v %v", resp, err)
	}
	w.wantDenials("limit http://a.com:80/whole")
}

// An incomplete hello uses its connection's buffer, or reserved memory, which is released when the connection ends.
func TestBudgetOfHellos(t *testing.T) {
	w, _ := newTLS(t, policy.NetRule{Host: "a.com", Scheme: "https", Allow: true})
	w.resolve("a.com", a4)
	whole := helloBytes(t, "a.com", nil)
	long := append([]byte{tlsHandshake, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb}, make([]byte, 8<<10)...)
	pieces := append([]byte{tlsHandshake, 3, 1, 0, 100, 1, 0, 0xff, 0}, make([]byte, 96)...)
	for _, x := range []struct {
		text []byte
		used int64
	}{{whole[:len(whole)-1], 0}, {long, helloCost}, {pieces, helloCost}} {
		c := w.dial("203.0.113.1:443")
		c.Write(x.text)
		eventually(func() bool { return len(w.s.connSlots) > 0 })
		w.wantReserved(x.used, fmt.Sprintf("for %.9x", x.text))
		c.Close()
		eventually(w.isIdle)
		w.wantReserved(0, "after its end")
	}
	w.takeDenials()
	if _, err := w.s.budget.reserve(maxBudget - helloCost + 1); err != nil {
		t.Fatal(err)
	}
	c := w.dial("203.0.113.1:443")
	c.Write(long)
	if b, err := io.ReadAll(io.LimitReader(c, int64(len(accessDenied)))); err != nil || string(b) != string(accessDenied) {
		t.Errorf("a long hello without memory: %v %x", err, b)
	}
	w.wantDenials("limit https://a.com:443")
	c = w.dial("203.0.113.1:443")
	c.Write(whole)
	if b, err := io.ReadAll(io.LimitReader(c, 1)); err != nil || b[0] == accessDenied[0] {
		t.Errorf("a short one: %v %x", err, b)
	}
}
