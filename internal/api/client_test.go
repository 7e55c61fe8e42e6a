package api

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// serve answers on a socket of its own with the server that toolguardd uses.
func serve(t *testing.T, handle http.HandlerFunc) *Client {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	childtest.Must(t, err)
	srv := &http.Server{Handler: handle}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { _ = srv.Close() })
	return &Client{Socket: path}
}

func TestDo(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var in Enter
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Method != "PUT" || r.URL.Path != "/x" {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		_ = json.NewEncoder(w).Encode(Session{ID: strings.Repeat("long", 5000), PID: in.Thread})
	})
	var got Session
	if err := c.Do("PUT", "/x", Enter{7}, &got); err != nil || got.PID != 7 || len(got.ID) != 20000 {
		t.Errorf("%v, %d, %d", err, got.PID, len(got.ID))
	}
}

func TestFollow(t *testing.T) {
	next := make(chan int)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range next {
			_ = json.NewEncoder(w).Encode(Enter{i})
			_ = http.NewResponseController(w).Flush()
		}
	})
	s := make(chan *Stream)
	go func() {
		got, err := c.Follow("/x")
		if err != nil {
			t.Error(err)
		}
		s <- got
	}()
	next <- 1
	stream := <-s
	defer stream.Close()
	for i := 1; i < 4; i++ {
		var got Enter
		if err := stream.Next(&got); err != nil || got.Thread != i {
			t.Fatalf("%d: %v, %v", i, got, err)
		}
		next <- i + 1
	}
	close(next)
	var last Enter
	if err := stream.Next(&last); err != nil || last.Thread != 4 {
		t.Error(last, err)
	}
	if err := stream.Next(&last); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
}

// A truncated answer is an error.
func TestCutOff(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"thread":1}`+"\n")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	s, err := c.Follow("/x")
	childtest.Must(t, err)
	defer s.Close()
	var got Enter
	childtest.Must(t, s.Next(&got))
	if err := s.Next(&got); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%v", err)
	}
}

func TestStatusErrors(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(Failure{"no capacity"})
	})
	var statusError *StatusError
	if err := c.Do("GET", "/x", nil, nil); !errors.As(err, &statusError) || statusError.Status != 409 || err.Error() != "toolguardd: no capacity" {
		t.Error(err)
	}
	c = &Client{Socket: filepath.Join(t.TempDir(), "none")}
	if err := c.Do("GET", "/x", nil, nil); !errors.Is(err, ErrNotRunning) {
		t.Error(err)
	}
}

// What doesn't speak HTTP is distinguished from toolguardd.
func TestNotHTTP(t *testing.T) {
	for _, answer := range []string{
		"", "hello\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", strings.Repeat("x", 1<<16),
	} {
		path := filepath.Join(t.TempDir(), "s")
		l, err := net.Listen("unix", path)
		childtest.Must(t, err)
		go func() {
			conn, err := l.Accept()
			if err == nil {
				_, _ = io.WriteString(conn, answer)
				_ = conn.Close()
			}
		}()
		var got Enter
		if err := (&Client{Socket: path}).Do("GET", "/x", nil, &got); err == nil {
			t.Errorf("%.40q was accepted as an answer", answer)
		}
		_ = l.Close()
	}
}

// Who wants it makes all requests on one connection, also when toolguardd has closed it meanwhile, and a stream takes it along.
func TestKeep(t *testing.T) {
	conns := make(chan net.Conn, 10)
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	childtest.Must(t, err)
	srv := &http.Server{
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_ = json.NewEncoder(w).Encode(Session{ID: strings.Repeat("x", len(r.URL.Path)*1000)}) // long: in chunks
			if r.URL.Path == "/stream" {
				_ = http.NewResponseController(w).Flush()
				<-r.Context().Done()
			}
		}),
		ConnState: func(c net.Conn, s http.ConnState) {
			if s == http.StateNew {
				conns <- c
			}
		},
	}
	go func() { _ = srv.Serve(l) }()
	defer srv.Close()
	c := &Client{Socket: path, KeepAlive: true}
	ask := func(path string) {
		t.Helper()
		var got Session
		if err := c.Do("GET", path, nil, &got); err != nil || len(got.ID) != 1000*len(path) {
			t.Fatalf("%s: %v, %d bytes", path, err, len(got.ID))
		}
	}
	for _, path := range []string{"/a", "/longer", "/a"} {
		ask(path)
	}
	childtest.Must(t, c.Do("PUT", "/unread", nil, nil))
	childtest.Must(t, (<-conns).Close()) // as toolguardd does after ten seconds without a request
	ask("/again")
	s, err := c.Follow("/stream")
	childtest.Must(t, err)
	defer s.Close()
	<-conns
	if len(conns) != 0 {
		t.Error("a stream has a connection of its own, although there was one")
	}
	ask("/alongside")
	if len(conns) != 1 {
		t.Errorf("%d connections were made during a stream", len(conns))
	}
}
