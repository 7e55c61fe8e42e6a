package event

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestQueueQuota checks that a user who floods a stuck queue leaves capacity for other users, and for his own session's events.
func TestQueueQuota(t *testing.T) {
	begun, empty := make(chan struct{}), make(chan struct{})
	kept := map[string]uint64{}
	var gap uint64
	first, few := true, []Kind{}
	q := NewBatchQueue(batchFunc(func(events []Event) (int, error) {
		if first {
			first = false
			close(begun)
			<-empty
		}
		for i := range events {
			if events[i].Kind == Gap {
				gap += events[i].Count
			} else {
				kept[events[i].Owner]++
				if events[i].Kind != Denial {
					few = append(few, events[i].Kind)
				}
			}
		}
		return len(events), nil
	}))
	of := func(owner string) *Event { return &Event{Kind: Denial, Session: "s" + owner, Owner: owner} }
	q.Write(of("")) // the sink is stuck with it
	<-begun
	const many = 40000
	for range many {
		q.Write(of("1"))
	}
	for range 1000 {
		q.Write(of("2"))
		q.Write(of("0"))
	}
	q.Write(&Event{Kind: Daemon, Session: "s1", Owner: "1"})
	q.Write(&Event{Kind: SessionEnd, Session: "s1", Owner: "1"})
	lost := q.Lost()
	close(empty)
	if missing, err := q.Close(); missing != lost || err == nil {
		t.Errorf("%d missing, %d lost: %v", missing, lost, err)
	}
	if kept["2"] != 1000 || kept["0"] != 1000 || kept["1"] == 0 || kept["1"]+lost != many+2 || !slices.Equal(few, []Kind{Daemon, SessionEnd}) || gap != lost {
		t.Errorf("%v, %d in the gap, %d lost", kept, gap, lost)
	}
}

// TestSessionEventQuota checks that session events of one user leave capacity for other users.
func TestSessionEventQuota(t *testing.T) {
	for _, kind := range []Kind{SessionStart, SessionEnd, Daemon} {
		c := &countingSink{start: make(chan struct{})}
		q := NewQueueSize(c, 1<<20)
		for range 10000 {
			q.Write(&Event{Kind: kind, Owner: "1"})
		}
		lost := q.Lost()
		for range 100 {
			q.Write(&Event{Kind: Denial, Owner: "2"})
		}
		close(c.start)
		_, _ = q.Close()
		if c.denials != 100 || lost == 0 || q.Lost() != lost {
			t.Errorf("%s: %d of 100 denials of another user were delivered; %d lost, %d before", kind, c.denials, q.Lost(), lost)
		}
	}
}

// batchFunc is a function as a batch sink.
type batchFunc func([]Event) (int, error)

func (f batchFunc) WriteAll(events []Event) (int, error) { return f(events) }

// TestQueueRoundRobin checks that one user's flood doesn't delay another user's events, and that Sync waits for all of them.
func TestQueueRoundRobin(t *testing.T) {
	begun, empty := make(chan struct{}), make(chan struct{})
	var got []Event
	q := NewBatchQueue(batchFunc(func(events []Event) (int, error) {
		if got == nil {
			close(begun)
			<-empty
		}
		got = append(got, events...)
		return len(events), nil
	}))
	at := time.Unix(0, 0)
	write := func(owner string) {
		at = at.Add(time.Second)
		q.Write(&Event{Kind: Denial, Owner: owner, Time: at})
	}
	write("1")
	<-begun
	size := (&Event{Owner: "1"}).size()
	for range 5 * maxBatch / size {
		write("1")
	}
	write("2")
	write("2")
	close(empty)
	q.Sync()
	kept := got // everything is delivered, so no goroutine changes it
	if want := 5*maxBatch/size + 3; len(kept) != want {
		t.Fatalf("%d of %d were delivered", len(kept), want)
	}
	last := map[string]time.Time{}
	for i, e := range kept {
		if !e.Time.After(last[e.Owner]) {
			t.Fatalf("the events of %s are out of order", e.Owner)
		}
		if last[e.Owner] = e.Time; e.Owner == "2" && i > len(kept)/10 {
			t.Errorf("%d were delivered first", i)
		}
	}
}

// TestGapUnderLoad checks that a gap is delivered even if events always wait.
func TestGapUnderLoad(t *testing.T) {
	var q *Queue
	reported := make(chan struct{})
	finished := false
	large := Event{Kind: Denial, Target: strings.Repeat("x", maxText)}
	q = NewQueueSize(sinkFunc(func(e *Event) error {
		if e.Kind == Gap && !finished {
			finished = true
			close(reported)
		}
		for range 3 {
			if !finished {
				q.Write(&large)
			}
		}
		return nil
	}), 4*maxBatch) // more than one batch
	q.Write(&large)
	select {
	case <-reported:
	case <-time.After(60 * gapDelay):
		t.Error("the gap isn't delivered")
	}
	_, _ = q.Close()
}

// countingSink counts events after start is closed.
type countingSink struct {
	start           chan struct{}
	denials, execs  uint64
	lost, lostExecs uint64
}

func (c *countingSink) Write(e *Event) error {
	<-c.start
	switch e.Kind {
	case Denial:
		c.denials++
	case Exec:
		c.execs++
	case Gap:
		c.lost, c.lostExecs = c.lost+e.Count, c.lostExecs+e.Execs
	}
	return nil
}

// TestExecQuota checks that executed programs leave half of the capacity for denials, and that the lost ones are counted as programs.
func TestExecQuota(t *testing.T) {
	for owner, denials := range map[string]uint64{"": 300, "1000": 50} {
		c := &countingSink{start: make(chan struct{})}
		q := NewQueueSize(c, 1<<20)
		const execs = 10000
		for range execs {
			q.Write(&Event{Kind: Exec, Owner: owner, Target: strings.Repeat("x", 500)})
		}
		for range denials {
			q.Write(&Event{Kind: Denial, Owner: owner, Target: strings.Repeat("x", 500)})
		}
		close(c.start)
		_, _ = q.Close()
		if c.denials != denials || c.execs+c.lostExecs != execs || c.lost != c.lostExecs || c.lost == 0 {
			t.Errorf("owner %q: %d of %d denials and %d of %d programs were delivered; %d lost, %d of them programs",
				owner, c.denials, denials, c.execs, execs, c.lost, c.lostExecs)
		}
	}
}
