package daemon

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/proc"
)

// After the answer to a request nothing more is sent: its writer may belong to another request.
func TestNothingIsSentLate(t *testing.T) {
	for name, stuck := range map[string]bool{"the client does not read": true, "nothing is being sent": false} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
			must(t, err)
			took, late := make(chan time.Duration, 1), make(chan error, 1)
			var req *request
			handler := func(w http.ResponseWriter, r *http.Request) {
				since := time.Now()
				var sent atomic.Int64
				sender := make(chan struct{})
				(&Daemon{}).answer(w, r, anyProcess, func(r *request) (any, error) {
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
			serveAs(t, l, http.HandlerFunc(handler), &peer.Peer{})
			c, err := net.Dial("unix", l.Addr().String())
			must(t, err)
			defer c.Close()
			if _, err := c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if d := <-took; d >= answering {
				t.Errorf("sending continued for %v", d)
			}
			if <-late == nil {
				t.Error("more can be sent after the answer")
			}
		})
	}
}

// The client of a session gets its events until the client disconnects or the session ends, which is the last notice.
func TestNotices(t *testing.T) {
	d, c := served(t, DefaultLimits)
	client, err := proc.Open(os.Getpid(), 0)
	must(t, err)
	defer client.Close()
	r := &record{Number: 1}
	r.Info.ID = "0000000000000001"
	s := d.newSession(r, client)
	d.mu.Lock()
	d.sessions[1] = s
	d.mu.Unlock()
	subscribed := func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.owner != nil
	}
	follow := func() *api.Stream {
		in, err := c.Follow(api.Sessions + "/" + s.id + api.Notices)
		must(t, err)
		return in
	}
	in := follow()
	s.notifyOwner(&event.Event{Kind: event.Denial, Target: "/one"})
	var n api.Notice
	if err := in.Next(&n); err != nil || n.Event == nil || n.Event.Target != "/one" {
		t.Errorf("%+v, %v", n, err)
	}
	_ = in.Close()
	if !eventually(func() bool { return !subscribed() }) {
		t.Fatal("it has disconnected, and is still subscribed")
	}
	in = follow()
	defer in.Close()
	s.notifyOwner(&event.Event{Kind: event.Denial, Target: "/two"})
	s.end.Denied = 2
	close(s.over)
	var got []api.Notice
	for err = in.Next(&n); err == nil; err = in.Next(&n) {
		got = append(got, n)
		n = api.Notice{}
	}
	if !errors.Is(err, io.EOF) || len(got) != 2 || got[0].Event == nil || got[0].Event.Target != "/two" || got[1].End == nil || got[1].End.Denied != 2 {
		t.Errorf("%+v, %v", got, err)
	}
}
