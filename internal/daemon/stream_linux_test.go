package daemon

import (
	"context"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// When a request has been answered, nothing of it is being sent any more, and nothing will be: its writer may be another one's.
func TestNothingIsSentLate(t *testing.T) {
	for name, stuck := range map[string]bool{"nobody reads": true, "nothing is under way": false} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
			if err != nil {
				t.Fatal(err)
			}
			took, late := make(chan time.Duration, 1), make(chan error, 1)
			var req *request
			handler := func(w http.ResponseWriter, r *http.Request) {
				since := time.Now()
				var sent atomic.Int64
				sender := make(chan struct{})
				(&Daemon{}).answer(w, r, anybody, func(r *request) (any, error) {
					req = r
					if !stuck {
						close(sender)
						return nil, r.send(nil)
					}
					go func() {
						defer close(sender)
						for text := make([]byte, 64<<10); r.send(text) == nil; {
							sent.Add(1)
						}
					}()
					for before := int64(-1); before != sent.Load(); time.Sleep(50 * time.Millisecond) {
						before = sent.Load()
					}
					return nil, nil
				})
				<-sender
				took <- time.Since(since)
				late <- req.send(nil)
			}
			srv := &http.Server{
				Handler: http.HandlerFunc(handler),
				ConnContext: func(ctx context.Context, _ net.Conn) context.Context {
					return context.WithValue(ctx, peerKey{}, &peer{})
				},
			}
			go func() { _ = srv.Serve(l) }() // it ends when the server is closed
			defer srv.Close()
			c, err := net.Dial("unix", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if d := <-took; d >= answering {
				t.Errorf("what it began to send went on for %v", d)
			}
			if <-late == nil {
				t.Error("the request has been answered, and more can be sent")
			}
		})
	}
}
