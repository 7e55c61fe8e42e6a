package event

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// told is what a consumer needs of an event.
type told struct {
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

func (e *told) stands() uint64 { return max(1, e.Count) }

// read takes the next event of a stream.
func read(t *testing.T, lines *bufio.Scanner) (e told) {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("the stream has ended: %v", lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
		t.Fatalf("%v: %s", err, lines.Text())
	}
	return e
}

// piped is a queue that ends in a pipe.
func piped(t *testing.T) (*Queue, *bufio.Scanner, *os.File) {
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

// Whatever an event says counts.
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

// TestQueueIsBounded: nobody reads while far more is told than there's room for. Nobody waits and memory stays bounded; whoever reads
// then gets the oldest, a gap that counts the others, and what came after it.
func TestQueueIsBounded(t *testing.T) {
	q, lines, out := piped(t)
	e := denial("fs", "read", strings.Repeat("x", 1000))
	e.Count = 3
	const n = 3 * maxWaiting / 1000
	for i := range n {
		e.Time = at.Add(time.Duration(i) * time.Second)
		if i > 0 {
			q.Write(&e)
			continue
		}
		first := e // more than a pipe holds: the writer is stuck with it, and the others fit once and no more
		first.Target = strings.Repeat("\x01", maxText)
		q.Write(&first)
		for taken := false; !taken; time.Sleep(time.Millisecond) {
			q.mu.Lock()
			taken = len(q.turns) == 0
			q.mu.Unlock()
		}
	}
	q.mu.Lock()
	held := len(q.turns[0].events) * e.size()
	counted := q.size
	q.mu.Unlock()
	if held > maxWaiting || held < maxWaiting/2 || held != counted {
		t.Errorf("%d bytes wait, %d as it counts", held, counted)
	}
	var sum, sequence uint64
	var gap told
	for sum < 3*n {
		e := read(t, lines)
		sum += e.stands()
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
	if got := read(t, lines); got.Unmapped.Target != "/after" {
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

// TestQueueGivesUp: a sink that takes nothing is waited for, and not for ever; one that is slow gets everything.
func TestQueueGivesUp(t *testing.T) {
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
			if took := time.Since(began); took != stuckTime || missing != 990 || !errors.Is(err, errStuck) {
				t.Errorf("gave up after %v: %d, %v", took, missing, err)
			}
			close(stuck)
		})
	})
	t.Run("slow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			came := 0
			q := NewQueue(sinkFunc(func(*Event) error {
				time.Sleep(stuckTime / 2)
				came++
				return nil
			}))
			for range 4 {
				q.Write(&Event{Kind: Denial})
			}
			if missing, err := q.Close(); missing != 0 || err != nil || came != 4 {
				t.Errorf("%d of 4 came; %d, %v", came, missing, err)
			}
		})
	})
}

// TestQueueTellsOfFailures: what a full disk didn't take is told of when there's room again.
func TestQueueTellsOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &disk{room: 100} // not even for one
		w, err := NewWriter(d, OCSF)
		must(t, err)
		q := NewQueue(w)
		e := denial("fs", "read", "/lost")
		e.Count = 7
		q.Write(&e)
		synctest.Wait()
		d.room = 1 << 20
		e = denial("fs", "read", "/kept")
		q.Write(&e)
		if missing, err := q.Close(); missing != 7 || !errors.Is(err, errDisk) {
			t.Errorf("%d, %v", missing, err)
		}
		lines := bufio.NewScanner(&d.Buffer)
		lines.Scan() // torn
		kept, gap := read(t, lines), read(t, lines)
		if kept.Unmapped.Target != "/kept" || gap.Unmapped.Kind != "gap" || gap.Count != 7 || !strings.Contains(gap.Unmapped.Extra.Why, "full") {
			t.Errorf("%+v\n%+v", kept, gap)
		}
	})
}

// What is lost counts once, however often its gap isn't taken.
func TestLostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		q := NewBatchQueue(s)
		e := denial("fs", "read", "/lost")
		for range 10 {
			q.Write(&e)
		}
		time.Sleep(10 * retryTime)
		if n := q.Untold(); n != 10 {
			t.Errorf("%d aren't told", n)
		}
		s.widen(1)
		time.Sleep(2 * retryTime)
		if got := s.widen(0); len(got) != 1 || got[0].Count != 10 || q.Lost() != 10 || q.Untold() != 0 {
			t.Errorf("%d are lost, %+v", q.Lost(), got)
		}
		if missing, _ := q.Close(); missing != 10 {
			t.Errorf("%d", missing)
		}
	})
}

// A gap that is lost, and doesn't know how much it stood for, isn't told as one that does.
func TestLostGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for exact, e := range map[string]Event{
			"false": {Kind: Gap, Extra: map[string]string{"exact": "false"}},
			"true":  {Kind: Gap, Count: 3, Extra: map[string]string{"exact": "true"}},
		} {
			s := &shelf{}
			q := NewBatchQueue(s)
			q.Write(&e)
			time.Sleep(2 * retryTime)
			s.widen(1)
			time.Sleep(2 * retryTime)
			if got := s.widen(0); len(got) != 1 || got[0].Extra["exact"] != exact || got[0].Count != max(1, e.Count) {
				t.Errorf("%s: %+v", exact, got)
			}
			_, _ = q.Close()
		}
	})
}

// A gap that is of several sessions is of none of them.
func TestGapOfSeveralSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := make(chan Event, 1)
		hold := make(chan struct{})
		q := NewQueueOf(sinkFunc(func(e *Event) error {
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

// shelf is a sink that takes several events at a time, as long as it has room.
type shelf struct {
	mu   sync.Mutex
	room int
	got  []Event
}

func (s *shelf) WriteAll(events []Event) (n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(len(events), s.room)
	s.room -= n
	s.got = append(s.got, events[:n]...)
	if n < len(events) {
		err = errDisk
	}
	return n, err
}

// widen makes room, and tells what is there.
func (s *shelf) widen(n int) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room += n
	return s.got
}

// TestBatchQueue: what a sink didn't take is counted exactly, and told without another event as soon as it can be.
func TestBatchQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{room: 3}
		q := NewBatchQueue(s)
		e := denial("fs", "read", "/x")
		e.Count = 2
		for range 5 {
			q.Write(&e)
		}
		q.Sync()
		if got := s.widen(1); len(got) != 3 {
			t.Errorf("%d taken", len(got))
		}
		time.Sleep(retryTime)
		synctest.Wait()
		got := s.widen(0)
		if len(got) != 4 {
			t.Fatal("the gap isn't told")
		}
		if gap := got[3]; gap.Kind != Gap || gap.Count != 4 || gap.Extra["why"] != errDisk.Error() || gap.Extra["exact"] != "true" {
			t.Errorf("%+v", gap)
		}
		if missing, err := q.Close(); missing != 4 || !errors.Is(err, errDisk) {
			t.Errorf("%d missing: %v", missing, err)
		}
	})
}

// TestQueueIsShared: one who floods a queue that nobody empties leaves room for others, and for what says of his session what held it.
func TestQueueIsShared(t *testing.T) {
	begun, empty := make(chan struct{}), make(chan struct{})
	kept := map[string]uint64{}
	var gap uint64
	first, few := true, []Kind{}
	q := NewBatchQueue(batch(func(events []Event) (int, error) {
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
	q.Write(of("")) // it's on its way, and the sink stuck
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

// TestFewLeaveRoom: nor does one who begins, changes and ends sessions as fast as he can take all of it.
func TestFewLeaveRoom(t *testing.T) {
	for _, kind := range []Kind{SessionStart, SessionEnd, Daemon} {
		c := &counting{may: make(chan struct{})}
		q := NewQueueOf(c, 1<<20)
		for range 10000 {
			q.Write(&Event{Kind: kind, Owner: "1"})
		}
		lost := q.Lost()
		for range 100 {
			q.Write(&Event{Kind: Denial, Owner: "2"})
		}
		close(c.may)
		_, _ = q.Close()
		if c.denials != 100 || lost == 0 || q.Lost() != lost {
			t.Errorf("%s: %d of 100 denials of another user came through; %d lost, and %d before", kind, c.denials, q.Lost(), lost)
		}
	}
}

// batch is a function that takes several events at a time.
type batch func([]Event) (int, error)

func (f batch) WriteAll(events []Event) (int, error) { return f(events) }

// TestQueueTakesTurns: what one who floods has waiting isn't what another one waits for, and who waits until all is handed over does so.
func TestQueueTakesTurns(t *testing.T) {
	begun, empty := make(chan struct{}), make(chan struct{})
	var got []Event
	q := NewBatchQueue(batch(func(events []Event) (int, error) {
		if got == nil {
			close(begun)
			<-empty
		}
		got = append(got, events...)
		return len(events), nil
	}))
	at := time.Unix(0, 0)
	tell := func(owner string) {
		at = at.Add(time.Second)
		q.Write(&Event{Kind: Denial, Owner: owner, Time: at})
	}
	tell("1")
	<-begun
	size := (&Event{Owner: "1"}).size()
	for range 5 * maxHanded / size {
		tell("1")
	}
	tell("2")
	tell("2")
	close(empty)
	q.Sync()
	kept := got // all is handed over, so nobody changes it
	if want := 5*maxHanded/size + 3; len(kept) != want {
		t.Fatalf("%d of %d were handed over", len(kept), want)
	}
	last := map[string]time.Time{}
	for i, e := range kept {
		if !e.Time.After(last[e.Owner]) {
			t.Fatalf("%s's come in another order", e.Owner)
		}
		if last[e.Owner] = e.Time; e.Owner == "2" && i > len(kept)/10 {
			t.Errorf("%d came first", i)
		}
	}
}

// TestGapHasItsTurn: a gap is told though there's always something that waits.
func TestGapHasItsTurn(t *testing.T) {
	var q *Queue
	told := make(chan struct{})
	over := false
	large := Event{Kind: Denial, Target: strings.Repeat("x", maxText)}
	q = NewQueueOf(sinkFunc(func(e *Event) error {
		if e.Kind == Gap && !over {
			over = true
			close(told)
		}
		for range 3 {
			if !over {
				q.Write(&large)
			}
		}
		return nil
	}), 4*maxHanded) // more than is handed over at a time
	q.Write(&large)
	select {
	case <-told:
	case <-time.After(60 * retryTime):
		t.Error("a gap waits for ever")
	}
	_, _ = q.Close()
}

// counting counts what it's given, once it may.
type counting struct {
	may             chan struct{}
	denials, execs  uint64
	lost, lostExecs uint64
}

func (c *counting) Write(e *Event) error {
	<-c.may
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

// TestExecsLeaveRoom: however many programs are told of while nobody reads, there's as much room for denials, and those that aren't told are
// counted as what they are.
func TestExecsLeaveRoom(t *testing.T) {
	for owner, denials := range map[string]uint64{"": 300, "1000": 50} {
		c := &counting{may: make(chan struct{})}
		q := NewQueueOf(c, 1<<20)
		const execs = 10000
		for range execs {
			q.Write(&Event{Kind: Exec, Owner: owner, Target: strings.Repeat("x", 500)})
		}
		for range denials {
			q.Write(&Event{Kind: Denial, Owner: owner, Target: strings.Repeat("x", 500)})
		}
		close(c.may)
		_, _ = q.Close()
		if c.denials != denials || c.execs+c.lostExecs != execs || c.lost != c.lostExecs || c.lost == 0 {
			t.Errorf("owner %q: %d of %d denials and %d of %d programs came through; lost are %d, %d of them programs",
				owner, c.denials, denials, c.execs, execs, c.lost, c.lostExecs)
		}
	}
}
