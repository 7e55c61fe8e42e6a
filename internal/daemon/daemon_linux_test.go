package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/daemon/systemd"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

var (
	must       = childtest.Must
	eventually = childtest.Eventually
)

// served is a toolguardd on a socket of its own. Its sessions are tested in test/daemon, on kernels that can have them.
func served(t testing.TB, limits Limits) (*Daemon, *api.Client) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	d, err := New(Config{State: dir, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Limits: limits})
	must(t, err)
	l, _, err := Listen(dir + "/socket")
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return d, &api.Client{Socket: dir + "/socket"}
}

// wantRejection fails unless a request is rejected with a status and a text.
func wantRejection(t *testing.T, err error, status int, text string) {
	t.Helper()
	if r, ok := errors.AsType[*api.StatusError](err); !ok || r.Status != status || !strings.Contains(r.Why, text) {
		t.Errorf("%v; want status %d with %q", err, status, text)
	}
}

func TestRequests(t *testing.T) {
	d, c := served(t, DefaultLimits)
	var s api.Daemon
	if err := c.Do("GET", api.Status, nil, &s); err != nil || s.PID != os.Getpid() {
		t.Errorf("%+v, %v", s, err)
	}
	list := []api.Session{{}}
	if err := c.Do("GET", api.Sessions, nil, &list); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
	d.unavailable = "" // requests are checked before the kernel is used
	for _, id := range []string{"1", "0000000000000001", "../status", "000000000000000G", strings.Repeat("0", 16)} {
		wantRejection(t, c.Do("DELETE", api.Sessions+"/"+strings.ReplaceAll(id, "/", "%2f"), nil, nil), 404, "no session")
	}
	wantRejection(t, c.Do("POST", api.Sessions, api.Start{}, nil), 400, "needs a policy and a command")
	for _, x := range []struct {
		st  api.Start
		why string
	}{
		{api.Start{Tool: strings.Repeat("x", maxName+1)}, "tool and agent have 257 and 0 bytes"},
		{api.Start{Agent: strings.Repeat("x", maxName+1)}, "tool and agent have 0 and 257 bytes"},
		{api.Start{Network: &api.Network{Proxies: []api.Proxy{{Host: strings.Repeat("x", maxTexts)}}}}, "have 65540 bytes together"},
		{api.Start{Home: "me"}, "isn't an absolute path"},
		{api.Start{Home: strings.Repeat("/", maxTexts+1)}, "have 65537 bytes together"},
		{api.Start{Degraded: []string{strings.Repeat("x", maxTexts), "x"}}, "have 65545 bytes together"},
		{api.Start{Degraded: make([]string, maxTexts)}, "have 262144 bytes together"},
		{api.Start{Limits: policy.Limits{Pids: policy.Count{Position: policy.Position{File: strings.Repeat("x", maxTexts+1)}}}}, "have 65537 bytes together"},
	} {
		x.st.Policy, x.st.Argv = compiled(t, "/etc"), []string{"true"}
		wantRejection(t, c.Do("POST", api.Sessions, x.st, nil), 400, x.why)
	}
	named := *compiled(t, "/etc")
	named.Name = strings.Repeat("x", api.MaxBody/2)
	wantRejection(t, c.Do("POST", api.Sessions, api.Start{Policy: &named, Argv: []string{"true"}}, nil), 400, "has a name of 4194304 bytes")
	wantRejection(t, c.Do("POST", api.Sessions, "x", nil), 400, "body")
	for _, text := range []string{`{"argv":["true"],"argv":["false"]}`, `{"policy":{"Name":"a","Name":"b"}}`, `{"policy":{"Layers":[{"Mode":1,"Mode":0}]}}`} {
		wantRejection(t, c.Do("POST", api.Sessions, json.RawMessage(text), nil), 400, "duplicate object member name")
	}
	wantRejection(t, c.Do("POST", api.Sessions, strings.Repeat("x", api.MaxBody), nil), 413, "too large")
	wantRejection(t, c.Do("POST", api.Sessions, api.Start{Argv: make([]string, maxValues+2)}, nil), 413, "values")
	wantRejection(t, c.Do("GET", "/nothing", nil, nil), 404, "nothing at")
	wantRejection(t, c.Do("GET", api.Events+"?format=xml", nil, nil), 400, "xml")
}

// docs/api.md lists the requests that are answered, and no others.
func TestRequestsInDocs(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`(GET|POST|PUT|DELETE) (/[^`?]*)[^`]*`").FindAllStringSubmatch(read(t, "../../docs/api.md"), -1) {
		documented[m[1]+" "+strings.ReplaceAll(m[2], "ID", "{id}")] = true
		if _, by := d.Handler().(*http.ServeMux).Handler(httptest.NewRequest(m[1], m[2], nil)); by == "/" {
			t.Errorf("docs/api.md has %s, which isn't answered", m[0])
		}
	}
	if n := len(regexp.MustCompile(`(?m)^\t(plain|one)\("`).FindAllString(read(t, "routes_linux.go"), -1)); n != len(documented) {
		t.Errorf("%d requests are answered, and docs/api.md has %d: %v", n, len(documented), documented)
	}
}

// A session's command line is truncated and redacted.
func TestCheckSizes(t *testing.T) {
	st := api.Start{Argv: append([]string{"curl", "-u", "me:canary", "--token", "canary"}, make([]string, 1000)...), Removed: make([]string, maxTexts)}
	if err := checkSizes(&st); err != nil || len(st.Argv) > 65 || len(st.Removed) > 5000 || strings.Contains(fmt.Sprint(st.Argv), "canary") || st.Argv[2] != "me:***" {
		t.Errorf("%v, %q", err, st.Argv)
	}
}

// A user has a maximum number of connections at a time. Closed ones no longer count.
func TestConnections(t *testing.T) {
	_, c := served(t, Limits{Connections: 2})
	var open []net.Conn
	for range 2 {
		conn, err := net.Dial("unix", c.Socket)
		must(t, err)
		open = append(open, conn)
	}
	wantRejection(t, c.Do("GET", api.Status, nil, nil), 503, "too many connections")
	for _, conn := range open {
		_ = conn.Close()
	}
	if !eventually(func() bool { return c.Do("GET", api.Status, nil, nil) == nil }) {
		t.Fatal("closed connections still count")
	}
}

// A subscriber gets the selected events as they happen, and all of them when toolguardd stops.
func TestFollow(t *testing.T) {
	d, c := served(t, DefaultLimits)
	s, err := c.Follow(api.Events + "?format=text&kind=denial&session=one")
	must(t, err)
	defer s.Close()
	for i := range 3 {
		d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "one", Target: fmt.Sprintf("/file%d", i)})
		d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "two", Target: "/other"})
		d.hub.publish(7, &event.Event{Kind: event.SessionEnd, Session: "one", Target: "/other"})
	}
	text := make([]byte, 4096)
	var got string
	for strings.Count(got, "\n") < 3 {
		n, err := s.Body().Read(text)
		must(t, err)
		got += string(text[:n])
	}
	if strings.Contains(got, "/other") || !strings.Contains(got, "/file2") {
		t.Error(got)
	}
}

// Only root and the owner get an event.
func TestPublishToOwners(t *testing.T) {
	stream, err := event.NewStream()
	must(t, err)
	h := hub{stream: stream, counts: newCounts(), followers: map[*follower]bool{}}
	received := map[int]*int{0: new(int), 7: new(int), 8: new(int)}
	all := func(*event.Event) bool { return true }
	var list []*follower
	for _, uid := range []int{0, 7, 8} {
		f := &follower{uid: uid, wants: all, queue: event.NewQueue(sink(func(*event.Event) error { *received[uid]++; return nil }))}
		h.subscribe(f)
		list = append(list, f)
	}
	h.publish(7, &event.Event{Kind: event.Denial})
	for _, f := range list {
		h.unsubscribe(f)
	}
	if *received[0] != 1 || *received[7] != 1 || *received[8] != 0 {
		t.Errorf("root %d, the owner %d, another %d", *received[0], *received[7], *received[8])
	}
}

// The kernel identifies the sender of a byte, not the process that opened the connection.
func TestReceivePID(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	must(t, unix.SetsockoptInt(fds[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
	f, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	defer f.Close()
	c, err := net.FileConn(f)
	must(t, err)
	defer c.Close()
	cmd := exec.Command("sh", "-c", "printf x")
	cmd.Stdout = theirs
	must(t, cmd.Run())
	if pid, err := receivePID(c.(*net.UnixConn)); err != nil || pid != cmd.Process.Pid {
		t.Errorf("process %d, %v; it was %d", pid, err, cmd.Process.Pid)
	}
	_ = theirs.Close()
	if pid, err := receivePID(c.(*net.UnixConn)); err == nil {
		t.Errorf("nothing was sent, and the sender is process %d", pid)
	}
}

// toolguardd notifies systemd, and checks the names of the sockets that systemd passes.
func TestSystemd(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	must(t, err)
	defer l.Close()
	t.Setenv("NOTIFY_SOCKET", name)
	must(t, systemd.Notify("READY=1"))
	text := make([]byte, 100)
	if n, err := l.Read(text); err != nil || string(text[:n]) != "READY=1" {
		t.Errorf("%q, %v", text[:n], err)
	}
	t.Setenv("WATCHDOG_USEC", "20000")
	ctx, stop := context.WithCancel(context.Background())
	d := &Daemon{}
	go d.Watchdog(ctx)
	if n, err := l.Read(text); err != nil || string(text[:n]) != "WATCHDOG=1" {
		t.Errorf("%q, %v", text[:n], err)
	}
	stop()
	t.Setenv("LISTEN_PID", fmt.Sprint(os.Getpid()))
	t.Setenv("LISTEN_FDS", "2")
	for _, names := range []string{"", "one", "one:two:three"} {
		t.Setenv("LISTEN_FDNAMES", names)
		if _, _, err := Listen("/nowhere"); err == nil || !strings.Contains(err.Error(), "one name is needed for each") {
			t.Errorf("%q: %v", names, err)
		}
	}
}

// No session begins when its events can't be recorded.
func TestNoSessionWithoutAudit(t *testing.T) {
	d, _ := served(t, DefaultLimits)
	nowhere := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(nowhere, nil, 0o600))
	log := audit.Start(audit.Config{Folder: nowhere + "/audit"})
	defer log.Close()
	d.cfg.Audit, d.hub.audit = log, log
	d.hub.publish(1, &event.Event{Kind: event.Denial, Session: "one"})
	_ = log.Sync()
	_, err := d.begin(&peer.Peer{}, api.Start{Policy: &policy.Compiled{}, Argv: []string{"true"}}, 0)
	if rejectionOf(err) != 503 || !strings.Contains(err.Error(), "none begins: ") || !strings.Contains(err.Error(), "not a directory") {
		t.Error(err)
	}
}
