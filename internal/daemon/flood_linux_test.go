package daemon

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

var floodFor = flag.Duration("flood", time.Second, "how long to flood toolguardd with denials")

// Several threads cause denials of one user's sessions as fast as they can. Each denial is recorded or counted, and another user's events are
// still recorded and received.
func TestFlood(t *testing.T) {
	d, c := served(t, DefaultLimits)
	folder := recordEvents(t, d)
	stream, err := c.Follow("/v1/events?format=ocsf&session=quiet")
	must(t, err)
	defer stream.Close()
	var received, uncounted atomic.Uint64
	go func() { // it ends with the stream
		for lines := bufio.NewScanner(stream.Body()); lines.Scan(); {
			if e, err := event.Parse(lines.Bytes()); err != nil || e.Kind == event.Gap && e.Count == 0 {
				uncounted.Add(1)
			} else {
				received.Add(max(1, e.Count)) // a gap has the number of missed events
			}
		}
	}()
	recorded := make(chan time.Time, 1)
	d.cfg.Audit.Observe(func(events []event.Event) {
		for i := range events {
			if events[i].Session == "quiet" {
				recorded <- time.Now()
			}
		}
	})
	var flooded atomic.Uint64
	var wg sync.WaitGroup
	end := time.Now().Add(*floodFor)
	for i := range 4 {
		wg.Go(func() {
			e := event.Event{
				Kind: event.Denial, Session: fmt.Sprint("flood", i), Mode: "enforce", Policy: "work", Reason: "no_rule", Resource: "fs",
				Capability: "read", Target: "/etc/shadow", Process: []event.Process{{PID: 4711, Argv: []string{"sh", "-c", "cat /etc/shadow"}}},
			}
			for again := true; again; again = time.Now().Before(end) {
				for range 100 {
					e.Time = time.Now()
					d.hub.publish(1000, &e)
				}
				flooded.Add(100)
			}
		})
	}
	quiet, slowest := uint64(0), time.Duration(0)
	for again := true; again; again = time.Now().Before(end) {
		before := time.Now()
		d.hub.publish(1001, &event.Event{Kind: event.Denial, Session: "quiet", Time: before})
		slowest = max(slowest, (<-recorded).Sub(before))
		quiet++
	}
	wg.Wait()
	d.hub.publish(1000, &event.Event{Kind: event.SessionEnd, Session: "flood0"}) // recorded in spite of the flood
	_, _ = d.cfg.Audit.Close()
	byOwner := map[string]uint64{}
	lost := uint64(0)
	for _, e := range lines(t, folder) {
		switch e.Kind {
		case event.SessionEnd:
			byOwner["end"]++
		case event.Denial:
			byOwner[e.Owner] += max(1, e.Count)
		case event.Gap:
			lost += e.Count
		}
	}
	t.Logf("%.0f events a second: %d, of which %d were recorded and %d counted; %d of another user's were recorded within %v",
		float64(flooded.Load())/floodFor.Seconds(), flooded.Load(), byOwner["1000"], lost, quiet, slowest)
	if byOwner["1000"]+lost != flooded.Load() || byOwner["1000"] == 0 {
		t.Errorf("%d, of which %d were recorded and %d counted", flooded.Load(), byOwner["1000"], lost)
	}
	if byOwner["end"] != 1 {
		t.Error("the end of a session wasn't recorded")
	}
	if byOwner["1001"] != quiet {
		t.Errorf("of another user's %d events %d were recorded", quiet, byOwner["1001"])
	}
	if !eventually(func() bool { return received.Load() >= quiet }) {
		t.Fatalf("of another user's %d events %d were received", quiet, received.Load())
	}
	if n := uncounted.Load(); n > 0 {
		t.Errorf("%d gaps without a number were received", n)
	}
}

// lines are all events of an audit.
func lines(t testing.TB, folder string) (list []event.Event) {
	t.Helper()
	files, err := filepath.Glob(folder + "/*.jsonl")
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for line := range bytes.Lines(text) {
			e, err := event.Parse(line)
			must(t, err)
			list = append(list, e)
		}
	}
	return list
}
