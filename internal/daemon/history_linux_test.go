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

// recordEvents makes a toolguardd record events, and returns the folder.
func recordEvents(t testing.TB, d *Daemon) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "audit")
	l := audit.Start(audit.Config{Folder: folder})
	d.cfg.Audit, d.hub.audit = l, l
	t.Cleanup(func() { _, _ = l.Close() })
	return folder
}

// recorded returns the events in the answer to a request for recorded events.
func recorded(t *testing.T, c *api.Client, ask string) (list []event.Event) {
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

// A user gets the user's own recorded events, root all.
func TestHistory(t *testing.T) {
	d, c := served(t, DefaultLimits)
	folder := recordEvents(t, d)
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
	summary := func(list []event.Event) (words string) {
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
		if got := summary(recorded(t, c, ask)); got != want {
			t.Errorf("%s: %q, want %q", ask, got, want)
		}
	}
	wantRejection(t, c.Do("GET", api.Events+"?format=text&since=yesterday", nil, nil), 400, "write a time")

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
			t.Errorf("user %d gets %q, want %q", uid, got, want)
		}
	}
}

// A client that follows gets every event, recorded and new.
func TestFollowHistory(t *testing.T) {
	d, c := served(t, DefaultLimits)
	recordEvents(t, d)
	const before, after = 500, 500
	for i := range before {
		d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "one", Target: fmt.Sprintf("/%d", i)})
	}
	s, err := c.Follow(api.Events + "?format=ocsf&since=2000-01-01T00:00:00Z&follow=true&kind=denial")
	must(t, err)
	defer s.Close()
	lines := bufio.NewScanner(s.Body())
	for i := range before + after {
		if i == before/2 { // in the middle of the recorded events
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

// A client that follows gets events that are recorded after the clock was set back. Without an audit the answer has the reason.
func TestHistoryAfterClockChange(t *testing.T) {
	d, c := served(t, DefaultLimits)
	recordEvents(t, d)
	wantRejection(t, c.Do("GET", api.Events+"?format=ocsf&since=2000-01-01T00:00:00Z", nil, nil), 503, "there is no audit in")
	now := time.Now()
	publish := func(name string, at time.Time) {
		d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "one", Target: name, Time: at})
	}
	publish("/before", now.Add(-time.Hour))
	publish("/first", now.Add(time.Second))
	s, err := c.Follow(api.Events + "?format=ocsf&follow=true&kind=denial&since=" + now.UTC().Format(time.RFC3339))
	must(t, err)
	defer s.Close()
	lines := bufio.NewScanner(s.Body())
	for i, want := range []string{"/first", "/back", "/last"} {
		if i == 1 {
			publish("/back", now.Add(-time.Hour))
			publish("/last", now.Add(2*time.Second))
		}
		if !lines.Scan() {
			t.Fatal(lines.Err())
		}
		if e, err := event.Parse(lines.Bytes()); err != nil || e.Target != want {
			t.Errorf("%q instead of %q, %v", e.Target, want, err)
		}
	}
}

// Root removes recorded events, and gets the size before and after.
func TestPrune(t *testing.T) {
	d, c := served(t, DefaultLimits)
	wantRejection(t, c.Do("POST", api.Prune, api.PruneRequest{}, nil), 400, "where events are recorded")
	folder := recordEvents(t, d)
	for i := range 100 {
		d.hub.publish(7, &event.Event{Kind: event.Denial, Session: "one", Target: fmt.Sprint(i)})
	}
	_ = d.cfg.Audit.Sync()
	wantRejection(t, c.Do("POST", api.Prune, api.PruneRequest{Bytes: -1}, nil), 400, "the number of bytes")
	var p api.Pruned
	if err := c.Do("POST", api.Prune, api.PruneRequest{Bytes: 4000}, &p); err != nil || p.Before < 50000 || p.After > 4000 {
		t.Errorf("%+v, %v", p, err)
	}
	if list := recorded(t, c, "since=2000-01-01T00:00:00Z&kind=gap"); len(list) != 1 || list[0].Count < 100 {
		t.Errorf("%+v", list)
	}
	if r, err := audit.Verify(folder, "", func(int64, int64) {}); err != nil || len(r.Problems) > 0 || r.Removed < 100 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := d.prune(&request{peer: &peer.Peer{UID: 7}}); err == nil {
		t.Error("a user other than root may prune")
	}
}
