package metrics

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestLimitConns checks that idle connections don't block a request, and that their number is limited.
func TestLimitConns(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	childtest.Must(t, err)
	const max = 3
	limited := LimitConns(l, max).(*connLimit)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "well") })}
	go func() { _ = server.Serve(limited) }()
	defer server.Close()
	dial := func() net.Conn {
		c, err := net.Dial("unix", l.Addr().String())
		childtest.Must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	idle := make([]net.Conn, 2*max)
	for i := range idle {
		idle[i] = dial()
	}
	client := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return dial(), nil }}}
	resp, err := client.Get("http://x/")
	childtest.Must(t, err)
	defer resp.Body.Close()
	if body, err := io.ReadAll(resp.Body); err != nil || string(body) != "well" {
		t.Errorf("%q, %v", body, err)
	}
	for _, c := range idle[:len(idle)-max+1] { // the answered one is among those that are left
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("an old connection isn't closed: %d bytes", n)
		}
	}
	limited.mu.Lock()
	defer limited.mu.Unlock()
	if len(limited.open) > max {
		t.Errorf("%d connections are open", len(limited.open))
	}
}

// TestSerialize checks that one request is handled at a time, that few wait, and that one whose client has gone isn't handled.
func TestSerialize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answered, next := 0, make(chan struct{})
		h := Serialize(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			answered++
			<-next
		}), 3)
		ask := func(ctx context.Context) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
			return w
		}
		ctx, leave := context.WithCancel(t.Context())
		go ask(t.Context())
		synctest.Wait()
		go ask(t.Context())
		go ask(ctx)
		synctest.Wait()
		if w := ask(t.Context()); answered != 1 || w.Code != http.StatusServiceUnavailable {
			t.Errorf("%d are answered, and one more with %d", answered, w.Code)
		}
		leave()
		synctest.Wait()
		close(next)
		synctest.Wait()
		if answered != 2 {
			t.Errorf("%d are answered", answered)
		}
	})
}
