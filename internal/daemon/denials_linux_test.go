package daemon

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
)

// reporting is a toolguardd that reports denials by Landlock.
func reporting(t *testing.T) (*Daemon, *api.Client) {
	t.Helper()
	if err := landlock.Audited(); err != nil {
		t.Skip(err)
	}
	d, c := served(t, DefaultLimits)
	if d.denials.why != "" {
		t.Skip(d.denials.why)
	}
	return d, c
}

// Each subscription has a name of its own, and the reader is closed after the last subscription.
func TestSubscriptions(t *testing.T) {
	d, c := reporting(t)
	var status api.Daemon
	if err := c.Do("GET", api.Status, nil, &status); err != nil || status.Denials != "" {
		t.Errorf("%+v, %v", status, err)
	}
	names := map[string]bool{}
	var open []*api.Stream
	for range 3 {
		s, err := c.Follow(api.Denials)
		must(t, err)
		b, err := s.Begin()
		must(t, err)
		if names[b.Name] || b.PID != os.Getpid() {
			t.Errorf("%+v after %v", b, names)
		}
		names[b.Name] = true
		open = append(open, s)
	}
	must(t, d.denials.close())
	if d.denials.reader == nil {
		t.Fatal("the reader is closed while clients subscribe")
	}
	must(t, open[0].Send())
	var last api.Record
	if err := open[0].Next(&last); err != nil || last.Totals == nil || !last.Totals.Exact || last.Totals.Delivered+last.Totals.Missing != 0 {
		t.Errorf("the end: %+v, %v", last.Totals, err)
	}
	for _, s := range open {
		_ = s.Close()
	}
	closed := func() bool {
		d.denials.mu.Lock()
		defer d.denials.mu.Unlock()
		return d.denials.reader == nil && len(d.denials.clients) == 0
	}
	if !eventually(closed) {
		t.Fatal("the reader stays open")
	}
}

// If denials can't be read, the status and the answer have the reason.
func TestNoDenials(t *testing.T) {
	d, c := served(t, DefaultLimits)
	d.denials.why = "the kernel is old"
	var status api.Daemon
	if err := c.Do("GET", api.Status, nil, &status); err != nil || status.Denials != d.denials.why {
		t.Errorf("%+v, %v", status, err)
	}
	wantRejection(t, c.Do("GET", api.Denials, nil, nil), 503, "the kernel is old")
}

// Requests from the descendants of a toolguard that subscribes are rejected. Its own requests, and those of its parents, are answered.
func TestConfinedRequestsAreRejected(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	_, c := reporting(t)
	ask := func() string {
		cmd := exec.Command("sh", "-c", `curl -s --max-time 60 --unix-socket "$0" "http://toolguard$1"; true`, c.Socket, api.Sessions)
		out, err := cmd.Output()
		must(t, err)
		return string(out)
	}
	if got := ask(); got != "[]\n" {
		t.Errorf("without a subscription it gets %q", got)
	}
	s, err := c.Follow(api.Denials)
	must(t, err)
	defer s.Close()
	_, err = s.Begin()
	must(t, err)
	if got := ask(); !strings.Contains(got, "may only begin a nested session") {
		t.Errorf("it gets %q", got)
	}
	var list []api.Session
	must(t, c.Do("GET", api.Sessions, nil, &list))
}

// The queue is bounded. Denials that exceed it are counted.
func TestOutboxIsBounded(t *testing.T) {
	near, far := net.Pipe()
	o := newOutbox(near)
	const n = 10000
	for i := range n {
		o.deny(&kernelaudit.Denial{Inode: uint64(i / 2), Serial: uint64(i), Path: strings.Repeat("x", 1000)})
	}
	if len(o.waiting) > waitingEvents+4096 || o.dropped == 0 || o.dropped >= n {
		t.Errorf("%d bytes wait, %d are dropped", len(o.waiting), o.dropped)
	}
	o.last(kernelaudit.Totals{Delivered: n, Exact: true})
	go o.run()
	go func() { o.end(); _ = near.Close() }()
	var received uint64
	var totals *kernelaudit.Totals
	for dec := json.NewDecoder(far); ; {
		var r api.Record
		if err := dec.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if totals = r.Totals; r.Denial != nil {
			received += r.Times
		}
	}
	if totals == nil || totals.Missing != n-received || totals.Delivered != received || totals.Why == "" {
		t.Errorf("%d received: %+v", received, totals)
	}
}

// Equal denials are one line.
func TestOutboxCounts(t *testing.T) {
	o := newOutbox(nil)
	for i := range 1000000 {
		o.deny(&kernelaudit.Denial{Serial: uint64(i), Blockers: []string{"fs.read_file"}, Path: "/x"})
	}
	o.flushDenial()
	var r api.Record
	if err := json.Unmarshal(o.waiting, &r); err != nil || r.Times != 1000000 || r.Denial.Path != "/x" || o.dropped != 0 {
		t.Errorf("%s %v", o.waiting, err)
	}
}

// When writing fails the connection is closed, so that the client notices that denials are missing.
func TestOutboxOfClosedConnection(t *testing.T) {
	near, far := net.Pipe()
	o := newOutbox(near)
	go o.run()
	must(t, far.Close())
	o.deny(&kernelaudit.Denial{})
	o.end()
	if _, err := near.Write([]byte("x")); err == nil {
		t.Error("the connection is still open")
	}
}
