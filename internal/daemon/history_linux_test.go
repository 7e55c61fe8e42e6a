package daemon

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
)

// kept has a toolguardd keep events, and returns the folder.
func kept(t testing.TB, d *Daemon) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "audit")
	l := audit.Start(audit.Config{Folder: folder})
	d.cfg.Audit, d.hub.audit = l, l
	t.Cleanup(func() { _, _ = l.Close() })
	return folder
}

// heard is what a request for events is answered.
func heard(t *testing.T, c *api.Client, ask string) (list []event.Event) {
	t.Helper()
	s, err := c.Follow(api.Events + "?format=ocsf&" + ask)
	must(t, err)
	defer s.Close()
	lines := bufio.NewScanner(s.Body())
	for lines.Scan() {
		e, err := event.Parse(lines.Bytes())
		must(t, err)
		list = append(list, e)
	}
	must(t, lines.Err())
	return list
}

// What was kept is told to whom it belongs.
func TestHistory(t *testing.T) {
	d, c := served(t, DefaultLimits)
	folder := kept(t, d)
	long := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, x := range []struct {
		uid int
		e   event.Event
	}{
		{7, event.Event{Kind: event.SessionStart, Session: "one", Time: long}},
		{7, event.Event{Kind: event.Denial, Session: "one", Reason: "no_rule", Time: long.Add(time.Hour)}},
		{8, event.Event{Kind: event.Denial, Session: "two", Reason: "protected", Tool: "build", Time: long.Add(2 * time.Hour)}},
		{0, event.Event{Kind: event.Daemon, Time: long.Add(time.Hour)}}, // the clock has jumped back
	} {
		d.hub.publish(x.uid, &x.e)
	}
	told := func(list []event.Event) (words string) {
		for _, e := range list {
			if e.Kind != event.Checkpoint {
				words += fmt.Sprintf(" %s/%s/%s", e.Kind, e.Session, e.Owner)
			}
		}
		return words
	}
	const all = "since=2026-01-01T00:00:00Z"
	for ask, want := range map[string]string{
		all:                            " session_start/one/7 denial/one/7 denial/two/8 daemon//",
		"since=2026-01-02T04:00:00Z":   " denial/one/7 denial/two/8 daemon//",
		"since=2026-01-02T04:30:00Z":   " denial/two/8",
		all + "&session=one":           " session_start/one/7 denial/one/7",
		all + "&kind=denial":           " denial/one/7 denial/two/8",
		all + "&tool=build":            " denial/two/8",
		all + "&reason=no_rule":        " denial/one/7",
		all + "&session=one&kind=none": "",
	} {
		if got := told(heard(t, c, ask)); got != want {
			t.Errorf("%s: %q, want %q", ask, got, want)
		}
	}
	refusedWith(t, c.Do("GET", api.Events+"?format=text&since=yesterday", nil, nil), 400, "write a time")

	text, err := os.ReadFile(folder + "/000000000001.jsonl")
	must(t, err)
	for uid, want := range map[int]string{0: "one one two ", 7: "one one ", 8: "two ", 70: ""} {
		w, got := filter{uid: uid}, ""
		for line := range strings.Lines(string(text)) {
			if e, ok := w.match([]byte(line)); ok && e.Session != "" {
				got += e.Session + " "
			}
		}
		if got != want {
			t.Errorf("user %d is told of %q, want %q", uid, got, want)
		}
	}
}

// Who asks to go on misses nothing between what was kept and what is.
func TestHistoryGoesOn(t *testing.T) {
	d, c := served(t, DefaultLimits)
	kept(t, d)
	const before, after = 500, 500
	for i := range before {
		d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "one", Target: fmt.Sprintf("/%d", i)})
	}
	s, err := c.Follow(api.Events + "?format=ocsf&since=2000-01-01T00:00:00Z&follow=true&kind=denial")
	must(t, err)
	defer s.Close()
	lines := bufio.NewScanner(s.Body())
	for i := range before + after {
		if i == before/2 { // it's in the middle of it
			for j := range after {
				d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "one", Target: fmt.Sprintf("/%d", before+j)})
			}
		}
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if e, err := event.Parse(lines.Bytes()); err != nil || e.Target != fmt.Sprintf("/%d", i) {
			t.Fatalf("%d is %q, %v", i, e.Target, err)
		}
	}
}

// Who goes on is told what happens after the clock was set back, and where there's nothing to read why.
func TestHistoryOfClock(t *testing.T) {
	d, c := served(t, DefaultLimits)
	kept(t, d)
	refusedWith(t, c.Do("GET", api.Events+"?format=ocsf&since=2000-01-01T00:00:00Z", nil, nil), 503, "there is no audit in")
	now := time.Now()
	tell := func(name string, at time.Time) {
		d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "one", Target: name, Time: at})
	}
	tell("/before", now.Add(-time.Hour))
	tell("/first", now.Add(time.Second))
	s, err := c.Follow(api.Events + "?format=ocsf&follow=true&kind=denial&since=" + now.UTC().Format(time.RFC3339))
	must(t, err)
	defer s.Close()
	lines := bufio.NewScanner(s.Body())
	for i, want := range []string{"/first", "/back", "/last"} {
		if i == 1 {
			tell("/back", now.Add(-time.Hour))
			tell("/last", now.Add(2*time.Second))
		}
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if e, err := event.Parse(lines.Bytes()); err != nil || e.Target != want {
			t.Errorf("%q is where %q belongs, %v", e.Target, want, err)
		}
	}
}

// Root removes what was kept, and it's told what that has brought.
func TestPrune(t *testing.T) {
	d, c := served(t, DefaultLimits)
	refusedWith(t, c.Do("POST", api.Prune, api.Keep{}, nil), 400, "events that are kept")
	folder := kept(t, d)
	for i := range 100 {
		d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "one", Target: fmt.Sprint(i)})
	}
	_ = d.cfg.Audit.Sync()
	refusedWith(t, c.Do("POST", api.Prune, api.Keep{Bytes: -1}, nil), 400, "how many bytes")
	var p api.Pruned
	if err := c.Do("POST", api.Prune, api.Keep{Bytes: 4000}, &p); err != nil || p.Before < 50000 || p.After > 4000 {
		t.Errorf("%+v, %v", p, err)
	}
	if list := heard(t, c, "since=2000-01-01T00:00:00Z&kind=gap"); len(list) != 1 || list[0].Count < 100 {
		t.Errorf("%+v", list)
	}
	if r, err := audit.Verify(folder, "", func(int64, int64) {}); err != nil || len(r.Problems) > 0 || r.Removed < 100 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := d.prune(&request{peer: &peer.Peer{UID: 7}}); err == nil {
		t.Error("somebody else than root may")
	}
}
