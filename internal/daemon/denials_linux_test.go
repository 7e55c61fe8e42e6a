package daemon

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/kernelaudit"
	"github.com/toolguard/toolguard/internal/landlock"
)

// reporting is a toolguardd that reports what Landlock denies.
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

// Each subscription has a name of its own, and the reader is closed when nobody has one any more.
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
		t.Fatal("it's closed for those who subscribe")
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
	for end := time.Now().Add(time.Minute); !closed(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the reader stays open")
		}
	}
}

// Where nothing can be read, it's said why.
func TestNoDenials(t *testing.T) {
	d, c := served(t, DefaultLimits)
	d.denials.why = "the kernel is old"
	var status api.Daemon
	if err := c.Do("GET", api.Status, nil, &status); err != nil || status.Denials != d.denials.why {
		t.Errorf("%+v, %v", status, err)
	}
	refusedWith(t, c.Do("GET", api.Denials, nil, nil), 503, "the kernel is old")
}

// What a toolguard that subscribes has started asks for nothing. Its own requests, and those of its parents, are answered.
func TestConfinedAskForNothing(t *testing.T) {
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
		t.Errorf("before anybody subscribes it gets %q", got)
	}
	s, err := c.Follow(api.Denials)
	must(t, err)
	defer s.Close()
	_, err = s.Begin()
	must(t, err)
	if got := ask(); !strings.Contains(got, "nothing else") {
		t.Errorf("it gets %q", got)
	}
	var list []api.Session
	must(t, c.Do("GET", api.Sessions, nil, &list))
}

// What a client doesn't take is counted, and takes no more space than there is.
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
	var came uint64
	var totals *kernelaudit.Totals
	for dec := json.NewDecoder(far); ; {
		var r api.Record
		if err := dec.Decode(&r); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if totals = r.Totals; r.Denial != nil {
			came += r.Times
		}
	}
	if totals == nil || totals.Missing != n-came || totals.Delivered != came || totals.Why == "" {
		t.Errorf("%d came: %+v", came, totals)
	}
}

// Denials that are alike are one line.
func TestOutboxCounts(t *testing.T) {
	o := newOutbox(nil)
	for i := range 1000000 {
		o.deny(&kernelaudit.Denial{Serial: uint64(i), Blockers: []string{"fs.read_file"}, Path: "/x"})
	}
	o.settle()
	var r api.Record
	if err := json.Unmarshal(o.waiting, &r); err != nil || r.Times != 1000000 || r.Denial.Path != "/x" || o.dropped != 0 {
		t.Errorf("%s %v", o.waiting, err)
	}
}

// Who doesn't read is cut off, and so knows that something is missing.
func TestOutboxOfWhoIsGone(t *testing.T) {
	near, far := net.Pipe()
	o := newOutbox(near)
	go o.run()
	must(t, far.Close())
	o.deny(&kernelaudit.Denial{})
	o.end()
	if _, err := near.Write([]byte("x")); err == nil {
		t.Error("the connection is open still")
	}
}
