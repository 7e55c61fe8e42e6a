package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/calls/client"
	"github.com/toolguard/toolguard/internal/calls/serve"
	"github.com/toolguard/toolguard/internal/daemon/forward"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// callHandler answers for the toolguard of a session: with what it was asked, and on /v1/calls/wait when the request is canceled.
type callHandler struct {
	session           string
	waiting, canceled chan string
}

// received is what a toolguard was asked.
type received struct {
	Session, Method, Path string
	Query                 map[string]string
	Size                  int
	Peer                  serve.Peer
}

func (h *callHandler) Serve(ctx context.Context, r *serve.Request) (int, any) {
	switch {
	case r.Path == message.Approvals && r.Method == "GET":
		if h.session == "mute" {
			<-ctx.Done()
		}
		return 200, message.List{Approvals: []message.Approval{{ID: "of " + h.session}}}
	case r.Path == message.Calls+"/wait":
		h.waiting <- r.Peer.Owner
		<-ctx.Done()
		h.canceled <- r.Peer.Owner
		return 499, nil
	case r.Path == message.Calls+"/none":
		return 404, message.Failure{Error: "no call"}
	}
	return 200, received{h.session, r.Method, r.Path, r.Query, len(r.Body), r.Peer}
}

// serving makes a session of a user whose toolguard is this process and serves calls.
func serving(t *testing.T, d *Daemon, c *api.Client, number uint64, uid int, name string) *callHandler {
	t.Helper()
	s := addSession(t, d, number, uid)
	h := &callHandler{name, make(chan string, 100), make(chan string, 100)}
	srv := serve.New(s.id, h, nil)
	t.Cleanup(func() { must(t, srv.Close()) })
	go func() { _ = srv.Forwarded(c, s.id) }()
	for !s.calls.IsServed() {
		time.Sleep(time.Millisecond)
	}
	return h
}

// addSession adds a session without anything in the kernel.
func addSession(t *testing.T, d *Daemon, number uint64, uid int) *session {
	t.Helper()
	this, err := proc.Open(os.Getpid(), 0)
	must(t, err)
	t.Cleanup(this.Close)
	s := d.newSession(&record{Number: number, Info: api.Session{ID: fmt.Sprintf("%016x", number), UID: uid, State: api.Running, Started: time.Unix(int64(number), 0)}}, this)
	t.Cleanup(func() { _, _ = s.events.Close() })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sessions[number] = s
	return s
}

// as is a client whose connections toolguardd takes for those of a peer.
func as(t *testing.T, d *Daemon, uid int, session uint64) *client.Client {
	t.Helper()
	this, err := proc.Open(os.Getpid(), 0)
	must(t, err)
	t.Cleanup(this.Close)
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	must(t, err)
	serveAs(t, l, d.Handler(), &peer.Peer{UID: uid, Process: this, Session: session})
	return &client.Client{Address: l.Addr().String()}
}

// serveAs serves connections as those of a peer until the test ends.
func serveAs(t *testing.T, l net.Listener, h http.Handler, p *peer.Peer) {
	srv := &http.Server{Handler: h, ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return peer.NewContext(ctx, p) }}
	go func() { _ = srv.Serve(l) }() // it ends when the server is closed
	t.Cleanup(func() { _ = srv.Close() })
}

// wantCall fails unless a request is answered by a session's toolguard.
func wantCall(t *testing.T, c *client.Client, method, path, session string) (got received) {
	t.Helper()
	if err := c.Do(t.Context(), method, path, nil, &got); err != nil || got.Session != session {
		t.Errorf("%s %s: %+v, %v; want that of session %s", method, path, got, err, session)
	}
	return got
}

// wantStatus fails unless a request is rejected with a status and a text.
func wantStatus(t *testing.T, err error, status int, text string) {
	t.Helper()
	if r, ok := errors.AsType[*client.StatusError](err); !ok || r.Status != status || !strings.Contains(r.Why, text) {
		t.Errorf("%v; want status %d with %q", err, status, text)
	}
}

// A request reaches the session that it is for: a confined client's own one, and of other clients one that they may ask. toolguardd names the client.
func TestForward(t *testing.T) {
	d, c := served(t, DefaultLimits)
	user := as(t, d, 1000, 0)
	wantStatus(t, user.Do(t.Context(), "GET", "/v1/calls/x", nil, nil), 404, "no session of this user")
	serving(t, d, c, 0xa, 1000, "a")
	got := wantCall(t, user, "POST", "/v1/calls", "a")
	if got.Method != "POST" || got.Path != "/v1/calls" || got.Peer.UID != 1000 || got.Peer.PID != os.Getpid() || got.Peer.Confined || got.Peer.Owner != "user 1000" || got.Peer.Exe == "" {
		t.Errorf("%+v", got)
	}
	serving(t, d, c, 0xb, 1000, "b")
	serving(t, d, c, 0xc, 1001, "c")
	addSession(t, d, 0xd, 1000)
	wantStatus(t, user.Do(t.Context(), "POST", "/v1/calls", nil, nil), 400, "of 000000000000000a, 000000000000000b")
	got = wantCall(t, user, "GET", "/v1/calls/a%20b?session=000000000000000b&wait_ms=5", "b")
	if got.Path != "/v1/calls/a b" || len(got.Query) != 1 || got.Query["wait_ms"] != "5" {
		t.Errorf("%+v", got)
	}
	wantCall(t, user, "POST", "/v1/approvals/x?session=000000000000000a", "a")
	wantCall(t, as(t, d, 0, 0), "POST", "/v1/approvals/x?session=000000000000000c", "c")
	for _, session := range []string{"000000000000000c", "c", "x", "000000000000000e"} {
		wantStatus(t, user.Do(t.Context(), "POST", "/v1/calls?session="+session, nil, nil), 404, "there is no session")
	}
	wantStatus(t, user.Do(t.Context(), "GET", "/v1/calls/none?session=000000000000000a", nil, nil), 404, "no call")

	confined := as(t, d, 1000, 0xb)
	got = wantCall(t, confined, "POST", "/v1/calls/x/result", "b")
	if !got.Peer.Confined || got.Peer.Session != "000000000000000b" || got.Peer.Owner != "session 000000000000000b" {
		t.Errorf("%+v", got)
	}
	wantCall(t, confined, "POST", "/v1/calls/x/cancel?session=000000000000000a", "b") // its own, whatever it names
	wantCall(t, confined, "POST", "/v1/approvals", "b")
	wantCall(t, confined, "GET", "/v1/approvals/x/decision", "b")
	wantStatus(t, confined.Do(t.Context(), "POST", "/v1/approvals/x", nil, nil), 403, "may not decide")
	wantStatus(t, as(t, d, 1000, 0xe).Do(t.Context(), "POST", "/v1/calls", nil, nil), 404, "didn't make")
}

// A session whose policy has no tool layer serves no calls.
func TestServesNoCalls(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	d.forwarder = forward.New(time.Now().Add(-time.Hour), d.stopping) // later than the toolguards of sessions have connected again
	addSession(t, d, 0xd, 1000)
	wantStatus(t, as(t, d, 1000, 0xd).Do(t.Context(), "POST", "/v1/calls", nil, nil), 404, "no [approvals], hooks or constraints")
	wantStatus(t, as(t, d, 1000, 0).Do(t.Context(), "POST", "/v1/calls?session=000000000000000d", nil, nil), 404, "no [approvals], hooks or constraints")
}

// The list without a session has the approvals of all of a user's sessions, without those that don't answer.
func TestAllApprovals(t *testing.T) {
	d, c := served(t, DefaultLimits)
	serving(t, d, c, 0xa, 1000, "a")
	serving(t, d, c, 0xb, 1000, "b")
	serving(t, d, c, 0xc, 1000, "mute")
	serving(t, d, c, 0xd, 1001, "d")
	for _, x := range []struct {
		uid     int
		session uint64
		query   string
		want    string
	}{
		{1000, 0, "", "of a, of b"},
		{1001, 0, "", "of d"},
		{0, 0, "", "of a, of b, of d"},
		{1002, 0, "", ""},
		{1000, 0, "?session=000000000000000b", "of b"},
		{1000, 0xa, "", "of a"},
		{1001, 0, "?since=1", "of d"},
	} {
		var list message.List
		err := as(t, d, x.uid, x.session).Do(t.Context(), "GET", "/v1/approvals"+x.query, nil, &list)
		var ids []string
		for _, a := range list.Approvals {
			ids = append(ids, a.ID)
		}
		if got := strings.Join(ids, ", "); err != nil || got != x.want || list.Approvals == nil {
			t.Errorf("%+v: %q, %v", x, got, err)
		}
	}
}

// The changes of several sessions' approvals have no common version.
func TestChangesOfOneSession(t *testing.T) {
	d, c := served(t, DefaultLimits)
	serving(t, d, c, 0xa, 1000, "a")
	serving(t, d, c, 0xb, 1000, "b")
	user := as(t, d, 1000, 0)
	wantStatus(t, user.Do(t.Context(), "GET", "/v1/approvals?since=0", nil, nil), 400, "of 000000000000000a, 000000000000000b")
	for _, s := range d.all(1000) {
		close(s.over) // there is nothing in the kernel
	}
	var list []api.Session
	if err := user.Do(t.Context(), "GET", "/v1/sessions", nil, &list); err != nil || len(list) != 2 || !list[0].Calls || !list[1].Calls {
		t.Errorf("%+v, %v", list, err)
	}
}

// Bodies are forwarded up to the limit. The fields that name a client are toolguardd's alone.
func TestForwardedBodies(t *testing.T) {
	d, c := served(t, DefaultLimits)
	serving(t, d, c, 0xa, 0, "a")
	for _, size := range []int{2, 70000, api.MaxBody} {
		var got received
		if err := (&client.Client{Address: c.Socket}).Do(t.Context(), "POST", "/v1/calls", strings.Repeat("x", size-2), &got); err != nil || got.Size != size {
			t.Errorf("%d bytes: %+v, %v", size, got, err)
		}
	}
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", c.Socket) }}
	defer transport.CloseIdleConnections()
	send := func(size int64, field string) (int, string) {
		r, err := http.NewRequest("POST", "http://toolguard/v1/calls", strings.NewReader(strings.Repeat("x", int(max(size, 10)))))
		must(t, err)
		r.ContentLength = size
		r.Header.Set(field, "1000")
		a, err := transport.RoundTrip(r)
		if err != nil {
			return 0, err.Error()
		}
		defer a.Body.Close()
		text := make([]byte, 1000)
		n, _ := a.Body.Read(text)
		return a.StatusCode, string(text[:n])
	}
	if status, text := send(10, api.ForwardedUID); status != 200 || !strings.Contains(text, `"UID":0,`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := send(-1, "X"); status != 411 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := send(api.MaxBody+1, "X"); status != 413 {
		t.Errorf("%d %s", status, text)
	}
}

// A thousand requests of one client, one after the other, are answered.
func TestForwardMany(t *testing.T) {
	d, c := served(t, DefaultLimits)
	serving(t, d, c, 0xa, 0, "a")
	user := &client.Client{Address: c.Socket}
	defer user.Close()
	for range 1000 {
		wantCall(t, user, "GET", "/v1/calls/x", "a")
	}
}

// When the client disconnects the request is canceled. A flood of confined clients leaves the others their requests, and a bounded number of
// connections is open.
func TestForwardFlood(t *testing.T) {
	d, c := served(t, DefaultLimits)
	h := serving(t, d, c, 0xa, 1000, "a")
	flood := as(t, d, 1000, 0xa)
	ctx, cancel := context.WithCancel(t.Context())
	var rejected atomic.Int64
	ended := make(chan bool)
	const all = 40
	for range all {
		go func() {
			one := client.Client{Address: flood.Address}
			var r *client.StatusError
			if errors.As(one.Do(ctx, "GET", "/v1/calls/wait", nil, nil), &r) && r.Status == 429 {
				rejected.Add(1)
			}
			_ = one.Close()
			ended <- true
		}()
	}
	const most = 24
	for range most {
		if owner := <-h.waiting; owner != "session 000000000000000a" {
			t.Error(owner)
		}
	}
	for range all - most {
		<-ended
	}
	if rejected.Load() != all-most {
		t.Errorf("%d requests were rejected", rejected.Load())
	}
	wantCall(t, as(t, d, 1000, 0), "GET", "/v1/calls/x", "a")
	cancel()
	for range most {
		<-h.canceled
		<-ended
	}
	wantCall(t, flood, "GET", "/v1/calls/x", "a")
}

// After a restart of toolguardd the toolguard connects again, until its session has ended.
func TestServeAfterRestart(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	socket := filepath.Join(t.TempDir(), "socket")
	start := func() (*Daemon, func()) {
		d, err := New(Config{State: t.TempDir(), Log: slog.New(slog.DiscardHandler), Limits: DefaultLimits})
		must(t, err)
		l, _, err := Listen(socket)
		must(t, err)
		addSession(t, d, 0xa, 0)
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- d.Serve(ctx, l) }()
		return d, func() {
			stop()
			must(t, <-done)
		}
	}
	h := &callHandler{"a", make(chan string, 1), make(chan string, 1)}
	srv := serve.New("000000000000000a", h, nil)
	defer srv.Close()
	ended := make(chan error)
	_, stop := start()
	go func() { ended <- srv.Forwarded(&api.Client{Socket: socket}, "000000000000000a") }()
	wantCall(t, &client.Client{Address: socket}, "GET", "/v1/calls/x?session=000000000000000a", "a")
	go func() {
		_ = (&client.Client{Address: socket}).Do(context.Background(), "GET", "/v1/calls/wait?session=000000000000000a", nil, nil)
	}()
	<-h.waiting
	stop()
	<-h.canceled
	d, stop := start()
	defer stop()
	wantCall(t, &client.Client{Address: socket}, "GET", "/v1/calls/x?session=000000000000000a", "a")
	d.mu.Lock()
	s := d.sessions[0xa]
	delete(d.sessions, 0xa)
	d.mu.Unlock()
	s.calls.Close()
	wantRejection(t, <-ended, 404, "")
}

// Only the process that started a session serves its calls.
func TestServesOwnSessionsOnly(t *testing.T) {
	d, c := served(t, DefaultLimits)
	s := addSession(t, d, 0xa, 0)
	s.client = proc.Ended(1)
	srv := serve.New(s.id, &callHandler{}, nil)
	defer srv.Close()
	wantRejection(t, srv.Forwarded(c, s.id), 403, "")
}
