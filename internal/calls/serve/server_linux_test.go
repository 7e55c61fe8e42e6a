package serve

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/childtest"
)

// piped is a connection of one peer with a server.
func piped(s *Server, p Peer) (net.Conn, *bufio.Reader) {
	near, far := net.Pipe()
	go func() { _ = s.ServeConn(far, p) }()
	return near, bufio.NewReader(near)
}

// answered reads an answer; status 0: there is none.
func answered(t *testing.T, in *bufio.Reader) (status int, body string) {
	t.Helper()
	r, err := http.ReadResponse(in, nil)
	if err != nil {
		return 0, err.Error()
	}
	text, err := io.ReadAll(r.Body)
	childtest.Must(t, err)
	return r.StatusCode, string(text)
}

// closed fails unless the server closes the connection.
func closed(t *testing.T, in *bufio.Reader) {
	t.Helper()
	if b, err := in.ReadByte(); err == nil {
		t.Errorf("the connection stays open, and there is %q", b)
	}
}

func TestAnswers(t *testing.T) {
	var logged []string
	s := New("one", newFake(), func(text string) { logged = append(logged, text) })
	defer s.Close()
	conn, in := piped(s, Peer{UID: 7})
	defer conn.Close()
	for _, x := range []struct {
		request string
		status  int
		body    string
	}{
		{"POST /echo?a=b HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nbody", 200, `{"body":"body","method":"POST","query":{"a":"b"}}` + "\n"},
		{"GET /peer HTTP/1.1\r\nHost: h\r\nToolguard-Uid: 0\r\n\r\n", 200, `{"UID":7,"PID":0,"Exe":"","Confined":false,"Session":"","Owner":""}` + "\n"},
		{"GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n", 404, `{"error":"there is nothing at /nothing"}` + "\n"},
		{"GET /panic HTTP/1.1\r\nHost: h\r\n\r\n", 500, `{"error":"toolguard failed to answer: its output has the reason"}` + "\n"},
		{"GET /strange HTTP/1.1\r\nHost: h\r\n\r\n", 500, `{"error":"toolguard failed to encode the answer"}` + "\n"},
		{"GET /echo HTTP/1.1\r\nHost: h\r\n\r\n", 200, `{"body":"","method":"GET","query":{}}` + "\n"},
	} {
		_, err := io.WriteString(conn, x.request)
		childtest.Must(t, err)
		if status, body := answered(t, in); status != x.status || body != x.body {
			t.Errorf("%q: %d %s", x.request, status, body)
		}
	}
	if len(logged) != 2 || !strings.Contains(logged[0], "at the disco") || !strings.Contains(logged[1], "encode") {
		t.Errorf("%q", logged)
	}
}

// A request that can't be read ends its connection, with the reason. What follows on it isn't answered.
func TestRejectedRequests(t *testing.T) {
	s := New("one", newFake(), nil)
	defer s.Close()
	const next = "GET /peer HTTP/1.1\r\nHost: h\r\n\r\n"
	for request, want := range map[string]struct {
		status int
		text   string
	}{
		"GET /peer HTTP/1.0\r\nHost: h\r\n\r\n" + next:                                                    {505, "HTTP/1.1"},
		"POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next:            {411, "Content-Length"},
		"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx" + next:        {400, "twice"},
		fmt.Sprintf("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", api.MaxBody+1) + next: {413, "8388608 bytes"},
		"GET /" + strings.Repeat("a", 20000) + " HTTP/1.1\r\nHost: h\r\n\r\n":                             {431, "16384 bytes"},
		"hello\r\n": {400, "HTTP/1.1"},
		"GET /peer HTTP/1.1\r\nConnection: close\r\n\r\n": {400, "Host"},
	} {
		conn, in := piped(s, Peer{})
		go func() { _, _ = io.WriteString(conn, request) }()
		if status, body := answered(t, in); status != want.status || !strings.Contains(body, want.text) || !strings.Contains(body, `{"error":"`) {
			t.Errorf("%.100q: %d %s", request, status, body)
		}
		closed(t, in)
		_ = conn.Close()
	}
}

// A client that waits for the status 100 gets it only if its body is read.
func TestExpect(t *testing.T) {
	s := New("one", newFake(), nil)
	defer s.Close()
	for size, want := range map[int]string{3: "HTTP/1.1 100 Continue\r\n", api.MaxBody + 1: "HTTP/1.1 413 Content Too Large\r\n"} {
		conn, in := piped(s, Peer{})
		_, err := fmt.Fprintf(conn, "POST /size HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", size)
		childtest.Must(t, err)
		if line, err := in.ReadString('\n'); err != nil || line != want {
			t.Errorf("%d bytes: %q, %v", size, line, err)
		}
		_ = conn.Close()
	}
}

// Requests that a client sends before it has read the answer are answered in order.
func TestPipelined(t *testing.T) {
	s := New("one", newFake(), nil)
	defer s.Close()
	conn, in := piped(s, Peer{})
	defer conn.Close()
	go func() {
		for i := range 5 {
			_, _ = fmt.Fprintf(conn, "POST /size HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%s", i, strings.Repeat("x", i))
		}
	}()
	for i := range 5 {
		if status, body := answered(t, in); status != 200 || body != fmt.Sprintln(i) {
			t.Errorf("%d: %d %s", i, status, body)
		}
	}
}

// A client has ten seconds for a request, from its first byte to the last one, and for reading an answer. Waiting for an answer has no limit.
func TestSlowClients(t *testing.T) {
	const head = "POST /size HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\n\r\n"
	for name, x := range map[string]struct {
		pieces []string
		pause  time.Duration
		status int
	}{
		"in time":       {[]string{head, strings.Repeat("x", 20)}, sending - time.Second, 200},
		"a slow head":   {strings.Split(head, ""), time.Second, 0},
		"a slow body":   {append([]string{head}, strings.Split(strings.Repeat("x", 20), "")...), time.Second, 408},
		"no head":       {[]string{head[:20]}, time.Hour, 0},
		"no request":    {[]string{""}, time.Hour, 0},
		"a late second": {[]string{head + strings.Repeat("x", 20)}, time.Hour, 200},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New("one", newFake(), nil)
				conn, in := piped(s, Peer{})
				go func() {
					for _, piece := range x.pieces {
						_, _ = io.WriteString(conn, piece)
						time.Sleep(x.pause)
					}
				}()
				began := time.Now()
				status, body := answered(t, in)
				if status != x.status {
					t.Errorf("%d %s", status, body)
				}
				closed(t, in)
				if took := time.Since(began); took > 2*sending+time.Second {
					t.Errorf("the connection stayed open for %v", took)
				}
				_ = conn.Close()
				childtest.Must(t, s.Close())
				time.Sleep(2 * time.Hour) // the writer
			})
		})
	}
	t.Run("no reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := New("one", newFake(), nil)
			conn, in := piped(s, Peer{})
			_, err := io.WriteString(conn, "GET /large?n=10000000 HTTP/1.1\r\nHost: h\r\n\r\n")
			childtest.Must(t, err)
			_, err = in.ReadByte() // the answer has begun
			childtest.Must(t, err)
			time.Sleep(sending + time.Second)
			synctest.Wait()
			if n := len(s.slots[unconfined]); n != 0 {
				t.Errorf("%d connections", n)
			}
			_ = conn.Close()
			childtest.Must(t, s.Close())
		})
	})
	t.Run("a long wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newFake()
			s := New("one", h, nil)
			conn, _ := piped(s, Peer{})
			_, err := io.WriteString(conn, "GET /wait HTTP/1.1\r\nHost: h\r\n\r\n")
			childtest.Must(t, err)
			time.Sleep(24 * time.Hour)
			if len(h.waiting) != 1 || len(h.canceled) != 0 {
				t.Error("it waits no longer")
			}
			_ = conn.Close()
			<-h.canceled
			childtest.Must(t, s.Close())
		})
	})
}

// A request that has arrived when the server is closed gets its answer. Neither a client that doesn't read it nor one that has sent half of a request
// holds the server up.
func TestCloseAnswers(t *testing.T) {
	for name, x := range map[string]struct {
		request string
		status  int // 0: none
		within  time.Duration
	}{
		"waiting":   {"GET /wait HTTP/1.1\r\nHost: h\r\n\r\n", 499, 0},
		"no reader": {"GET /large?n=10000000 HTTP/1.1\r\nHost: h\r\n\r\n", 0, last},
		"no body":   {"POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\nabc", 0, 0},
		"no head":   {"POST /echo HT", 0, 0},
		"idle":      {"", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New("one", newFake(), nil)
				conn, in := piped(s, Peer{})
				if x.request != "" {
					_, err := io.WriteString(conn, x.request)
					childtest.Must(t, err)
				}
				synctest.Wait()
				if x.status != 0 {
					go func() {
						if status, body := answered(t, in); status != x.status {
							t.Errorf("%d %s", status, body)
						}
						closed(t, in)
					}()
				}
				began := time.Now()
				childtest.Must(t, s.Close())
				if took := time.Since(began); took != x.within {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
				if x.status == 0 && x.within == 0 {
					closed(t, in)
				}
				_ = conn.Close()
			})
		})
	}
}

// Few long bodies are read at a time, and none of unconfined peers waits for those of confined ones.
func TestLongBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New("one", newFake(), nil)
		begin := func(p Peer) (net.Conn, *bufio.Reader) {
			conn, in := piped(s, p)
			_, err := fmt.Fprintf(conn, "POST /size HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", api.MaxBody)
			childtest.Must(t, err)
			return conn, in
		}
		var open []net.Conn
		for range maxLong {
			conn, _ := begin(Peer{Confined: true})
			open = append(open, conn)
			time.Sleep(time.Second)
		}
		synctest.Wait()
		late, in := begin(Peer{Confined: true})
		other, otherIn := begin(Peer{})
		go func() { _, _ = io.CopyN(other, slowZeros{}, api.MaxBody) }()
		if status, body := answered(t, otherIn); status != 200 || body != fmt.Sprintln(api.MaxBody) {
			t.Errorf("unconfined: %d %s", status, body)
		}
		go func() { _, _ = io.CopyN(late, slowZeros{}, api.MaxBody) }()
		if status, body := answered(t, in); status != 200 { // the others have taken more than ten seconds
			t.Errorf("confined: %d %s", status, body)
		}
		for _, conn := range slices.Concat(open, []net.Conn{late, other}) {
			_ = conn.Close()
		}
		childtest.Must(t, s.Close())
	})
}

type slowZeros struct{}

func (slowZeros) Read(p []byte) (int, error) { return len(p), nil }
