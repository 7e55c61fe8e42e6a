package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// received has the members of an event that a consumer needs.
type received struct {
	Count    uint64
	Start    int64 `json:"start_time"`
	End      int64 `json:"end_time"`
	Metadata struct {
		UID      string
		Sequence uint64
	}
	Policy   struct{ Name string }
	Unmapped struct {
		Kind, Session, Target, Boot string
		Extra                       struct{ Why, Exact string }
	}
}

func (e *received) occurrences() uint64 { return max(1, e.Count) }

// readEvent reads the next event of a stream.
func readEvent(t *testing.T, lines *bufio.Scanner) (e received) {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("the stream has ended: %v", lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
		t.Fatalf("%v: %s", err, lines.Text())
	}
	return e
}

// pipeQueue returns a queue that writes to a pipe.
func pipeQueue(t *testing.T) (*Queue, *bufio.Scanner, *os.File) {
	t.Helper()
	in, out, err := os.Pipe()
	must(t, err)
	t.Cleanup(func() { in.Close(); out.Close() })
	w, err := NewWriter(out, OCSF)
	must(t, err)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	return NewQueue(w), lines, out
}

// TestSize checks that every string counts.
func TestSize(t *testing.T) {
	const long = 1000
	text := strings.Repeat("x", long)
	for name, e := range map[string]Event{
		"tool": {Tool: text}, "agent": {Agent: text}, "policy": {Policy: text}, "rule": {Rule: text}, "place": {Place: text},
		"suggestion": {Suggest: text}, "target": {Target: text}, "what was asked": {Asked: text}, "degraded": {Degraded: []string{text}},
		"program": {Process: []Process{{Exe: text}}}, "argument": {Process: []Process{{Argv: []string{text}}}},
		"extra": {Extra: map[string]string{"why": text}},
	} {
		if n := e.size() - (&Event{}).size(); n < long {
			t.Errorf("%s: %d bytes count", name, n)
		}
	}
}

// TestQueueIsBounded writes far more than the capacity while nothing reads. No write blocks and memory stays bounded. The reader
// then receives the oldest events, a gap that counts the others, and the later events.
func TestQueueIsBounded(t *testing.T) {
	q, lines, out := pipeQueue(t)
	e := denial("fs", "read", strings.Repeat("x", 1000))
	e.Count = 3
	const n = 3 * defaultCapacity / 1000
	for i := range n {
		e.Time = at.Add(time.Duration(i) * time.Second)
		if i > 0 {
			q.Write(&e)
			continue
		}
		first := e // larger than a pipe, so that the writer blocks with it
		first.Target = strings.Repeat("\x01", maxText)
		q.Write(&first)
		for started := false; !started; time.Sleep(time.Millisecond) {
			q.mu.Lock()
			started = len(q.owners) == 0
			q.mu.Unlock()
		}
	}
	q.mu.Lock()
	waiting := len(q.owners[0].events) * e.size()
	counted := q.size
	q.mu.Unlock()
	if waiting > defaultCapacity || waiting < defaultCapacity/2 || waiting != counted {
		t.Errorf("%d bytes wait, %d are counted", waiting, counted)
	}
	var sum, sequence uint64
	var gap received
	for sum < 3*n {
		e := readEvent(t, lines)
		sum += e.occurrences()
		if sequence++; e.Metadata.Sequence != sequence {
			t.Fatalf("event %d has the number %d", sequence, e.Metadata.Sequence)
		}
		if e.Unmapped.Kind == "gap" {
			gap = e
		}
	}
	if sum != 3*n || gap.Count < n || gap.Unmapped.Session != "s1" || gap.Policy.Name != "work" || gap.Unmapped.Extra.Exact != "true" ||
		gap.Unmapped.Extra.Why != errFull.Error() || gap.End != e.Time.UnixMilli() || gap.Start != at.UnixMilli()+int64(3*n-gap.Count)/3*1000 {
		t.Errorf("%d of %d: %+v", sum, 3*n, gap)
	}
	after := denial("fs", "read", "/after")
	q.Write(&after)
	if got := readEvent(t, lines); got.Unmapped.Target != "/after" {
		t.Errorf("%+v", got)
	}
	if missing, err := q.Close(); missing != gap.Count || !errors.Is(err, errFull) {
		t.Errorf("%d, %v", missing, err)
	}
	out.Close()
	if lines.Scan() {
		t.Errorf("one more: %s", lines.Text())
	}
}

// TestQueueCloseTimeout checks that Close stops waiting for a stuck sink, and that a slow one receives everything.
func TestQueueCloseTimeout(t *testing.T) {
	t.Run("stuck", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			stuck, taken := make(chan struct{}), 0
			q := NewQueue(sinkFunc(func(*Event) error {
				if taken++; taken > 10 {
					<-stuck
				}
				return nil
			}))
			for range 1000 {
				q.Write(&Event{Kind: Denial})
			}
			synctest.Wait()
			began := time.Now()
			missing, err := q.Close()
			if took := time.Since(began); took != stuckTimeout || missing != 990 || !errors.Is(err, errStuck) {
				t.Errorf("closed after %v: %d, %v", took, missing, err)
			}
			close(stuck)
		})
	})
	t.Run("slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			got := 0
			q := NewQueue(sinkFunc(func(*Event) error {
				time.Sleep(stuckTimeout / 2)
				got++
				return nil
			}))
			for range 4 {
				q.Write(&Event{Kind: Denial})
			}
			if missing, err := q.Close(); missing != 0 || err != nil || got != 4 {
				t.Errorf("%d of 4 received; %d, %v", got, missing, err)
			}
		})
	})
}

// TestQueueReportsFailedWrites checks that a gap reports the events that a full disk didn't accept, once it has space.
func TestQueueReportsFailedWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{capacity: 100} // less than one event
		w, err := NewWriter(d, OCSF)
		must(t, err)
		q := NewQueue(w)
		e := denial("fs", "read", "/lost")
		e.Count = 7
		q.Write(&e)
		synctest.Wait()
		d.capacity = 1 << 20
		e = denial("fs", "read", "/kept")
		q.Write(&e)
		if missing, err := q.Close(); missing != 7 || !errors.Is(err, errDisk) {
			t.Errorf("%d, %v", missing, err)
		}
		lines := bufio.NewScanner(&d.Buffer)
		lines.Scan() // torn
		kept, gap := readEvent(t, lines), readEvent(t, lines)
		if kept.Unmapped.Target != "/kept" || gap.Unmapped.Kind != "gap" || gap.Count != 7 || !strings.Contains(gap.Unmapped.Extra.Why, "full") {
			t.Errorf("%+v\n%+v", kept, gap)
		}
	})
}

// TestLossCountedOnce checks that a loss counts once, even if the gap is rejected several times.
func TestLossCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &limitedSink{}
		q := NewBatchQueue(s)
		e := denial("fs", "read", "/lost")
		for range 10 {
			q.Write(&e)
		}
		time.Sleep(10 * gapDelay)
		if n := q.Unreported(); n != 10 {
			t.Errorf("%d are unreported", n)
		}
		s.grow(1)
		time.Sleep(2 * gapDelay)
		if got := s.grow(0); len(got) != 1 || got[0].Count != 10 || q.Lost() != 10 || q.Unreported() != 0 {
			t.Errorf("%d are lost, %+v", q.Lost(), got)
		}
		if missing, _ := q.Close(); missing != 10 {
			t.Errorf("%d", missing)
		}
	})
}

// TestLostGap checks that a lost gap without an exact count makes the count of the new gap inexact.
func TestLostGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for exact, e := range map[string]Event{
			"false": {Kind: Gap, Extra: map[string]string{"exact": "false"}},
			"true":  {Kind: Gap, Count: 3, Extra: map[string]string{"exact": "true"}},
		} {
			s := &limitedSink{}
			q := NewBatchQueue(s)
			q.Write(&e)
			time.Sleep(2 * gapDelay)
			s.grow(1)
			time.Sleep(2 * gapDelay)
			if got := s.grow(0); len(got) != 1 || got[0].Extra["exact"] != exact || got[0].Count != max(1, e.Count) {
				t.Errorf("%s: %+v", exact, got)
			}
			_, _ = q.Close()
		}
	})
}

// TestGapOfSeveralSessions checks that a gap with events of several sessions names none of them.
func TestGapOfSeveralSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan Event, 1)
		hold := make(chan struct{})
		q := NewQueueSize(sinkFunc(func(e *Event) error {
			<-hold
			if e.Kind == Gap {
				lost <- *e
			}
			return nil
		}), 1)
		q.Write(&Event{Kind: Denial, Session: "one", Policy: "p"})
		q.Write(&Event{Kind: Denial, Session: "two", Policy: "p"})
		close(hold)
		_, _ = q.Close()
		if g := <-lost; g.Count != 2 || g.Session != "" || g.Policy != "" {
			t.Errorf("%+v", g)
		}
	})
}

type sinkFunc func(*Event) error

func (f sinkFunc) Write(e *Event) error { return f(e) }

// limitedSink is a batch sink that accepts events up to its capacity.
type limitedSink struct {
	mu       sync.Mutex
	capacity int
	got      []Event
}

func (s *limitedSink) WriteAll(events []Event) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(len(events), s.capacity)
	s.capacity -= n
	s.got = append(s.got, events[:n]...)
	if n < len(events) {
		err = errDisk
	}
	return n, err
}

// grow adds capacity and returns the accepted events.
func (s *limitedSink) grow(n int) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity += n
	return s.got
}

// TestBatchQueue checks that rejected events are counted exactly, and that their gap is delivered without a further event.
func TestBatchQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &limitedSink{capacity: 3}
		q := NewBatchQueue(s)
		e := denial("fs", "read", "/x")
		e.Count = 2
		for range 5 {
			q.Write(&e)
		}
		q.Sync()
		if got := s.grow(1); len(got) != 3 {
			t.Errorf("%d taken", len(got))
		}
		time.Sleep(gapDelay)
		synctest.Wait()
		got := s.grow(0)
		if len(got) != 4 {
			t.Fatal("there is no gap")
		}
		if gap := got[3]; gap.Kind != Gap || gap.Count != 4 || gap.Extra["why"] != errDisk.Error() || gap.Extra["exact"] != "true" {
			t.Errorf("%+v", gap)
		}
		if missing, err := q.Close(); missing != 4 || !errors.Is(err, errDisk) {
			t.Errorf("%d missing: %v", missing, err)
		}
	})
}
