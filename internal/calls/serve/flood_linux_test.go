package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/calls/client"
	"github.com/toolguard/toolguard/internal/childtest"
)

// A thousand requests take one connection.
func TestKeepAlive(t *testing.T) {
	s, path := outside(t, newFake())
	c := dial(t, path)
	for i := range 1000 {
		var got struct{ Body string }
		if err := c.Do(t.Context(), "POST", "/echo", i, &got); err != nil || got.Body != fmt.Sprint(i) {
			t.Fatalf("%d: %q, %v", i, got.Body, err)
		}
		if n := len(s.slots[unconfined]); n != 1 {
			t.Fatalf("%d connections", n)
		}
	}
}

// Several goroutines use one client. Each gets its own answers.
func TestOneClient(t *testing.T) {
	_, path := outside(t, newFake())
	c := dial(t, path)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 50 {
				var got struct{ Body string }
				if err := c.Do(t.Context(), "POST", "/echo", i, &got); err != nil || got.Body != fmt.Sprint(i) {
					t.Errorf("%d: %q, %v", i, got.Body, err)
				}
			}
		})
	}
	all.Wait()
}

// When its client disconnects, a request that waits is canceled. The client's deadline and its error are those of the context.
func TestDisconnect(t *testing.T) {
	h := newFake()
	_, path := outside(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	c := dial(t, path)
	failed := make(chan error)
	go func() { failed <- c.Do(ctx, "GET", "/wait", nil, nil) }()
	<-h.waiting
	cancel()
	<-h.canceled
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	var p Peer
	if err := c.Do(t.Context(), "GET", "/peer", nil, &p); err != nil || p.Confined {
		t.Errorf("the next request: %+v, %v", p, err)
	}
	var rejected *client.StatusError
	if err := c.Do(t.Context(), "GET", "/nothing", nil, nil); !errors.As(err, &rejected) || rejected.Status != 404 || rejected.Why != "there is nothing at /nothing" {
		t.Error(err)
	}
}

// Neither kind of peer can use up the other's connections. What was closed no longer counts.
func TestConnectionsOfEachKind(t *testing.T) {
	s, path := outside(t, newFake())
	inside, err := s.Inside(filepath.Join(t.TempDir(), "calls"))
	childtest.Must(t, err)
	for k, flooded := range map[kind]string{unconfined: path, confined: inside} {
		other := path
		if k == unconfined {
			other = inside
		}
		var open []net.Conn
		for range maxConnections {
			conn, err := net.Dial("unix", flooded)
			childtest.Must(t, err)
			open = append(open, conn)
		}
		for len(s.slots[k]) < maxConnections { // each has its slot
			time.Sleep(time.Millisecond)
		}
		ask := func(path string) error {
			c := &client.Client{Address: path}
			defer c.Close()
			return c.Do(t.Context(), "GET", "/peer", nil, nil)
		}
		var rejected *client.StatusError
		if err := ask(flooded); !errors.As(err, &rejected) || rejected.Status != 503 || !strings.Contains(err.Error(), "64 connections") {
			t.Errorf("%s: %v", flooded, err)
		}
		childtest.Must(t, ask(other))
		for _, conn := range open {
			_ = conn.Close()
		}
		for end := time.Now().Add(time.Minute); ask(flooded) != nil; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("closed connections still count")
			}
		}
	}
}

// Close removes the socket, cancels the requests that wait, and returns when their handlers have.
func TestClose(t *testing.T) {
	h := newFake()
	s := New("one", h, nil)
	path, err := s.Outside([]string{filepath.Join(t.TempDir(), "toolguard")})
	childtest.Must(t, err)
	go func() { _ = dial(t, path).Do(context.Background(), "GET", "/wait", nil, nil) }()
	<-h.waiting
	childtest.Must(t, s.Close())
	if len(h.canceled) != 1 {
		t.Error("the handler still runs")
	}
	if _, err := client.Dial(t.Context(), path); !errors.Is(err, client.ErrNobody) {
		t.Error(err)
	}
	near, far := net.Pipe()
	defer near.Close()
	if err := s.ServeConn(far, Peer{}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Outside([]string{filepath.Join(t.TempDir(), "toolguard")}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}
