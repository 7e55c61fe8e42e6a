package event

import (
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"
)

// maxWaiting bounds what waits in a queue unless it's told otherwise, in bytes of memory; every event counts for at least its
// own size, so it bounds their number too.
const maxWaiting = 8 << 20

// What is handed over at a time, at most, and of it at a time to one user, in bytes: what is on its way is what others wait for.
const (
	maxHanded = 256 << 10
	maxTurn   = 64 << 10
)

// stuckTime is how long a sink may take nothing before Close gives it up, and closeTime how long Close waits in all.
const (
	stuckTime = 2 * time.Second
	closeTime = 30 * time.Second
)

// retryTime is how long after a failure a gap is told though nothing else is, and how long one waits for its turn.
const retryTime = time.Second

var (
	errFull  = errors.New("they came faster than they were taken")
	errStuck = fmt.Errorf("nothing took any for %v", stuckTime)
	errSlow  = fmt.Errorf("%v weren't enough to write them", closeTime)
)

// Sink is where events go: a Writer, or whatever else keeps them. One goroutine calls it.
type Sink interface{ Write(*Event) error }

// Batch is a sink that takes several events at a time: the first n of them, and because of err not the others.
type Batch interface {
	WriteAll(events []Event) (n int, err error)
}

// Queue stands between those who tell events, who must never wait, and a sink that may be slow, stuck or failing. What it
// has no room for, and what the sink fails to write, is counted; a Gap tells of it as soon as the sink has taken what was
// waiting, or a second later. No user's events get more than a quarter of what others leave, and users take turns, so one who floods it
// costs nobody else's theirs, nor do they wait for his. With a session's starts, changes and ends it's half. Of each user's the order is kept.
type Queue struct {
	give func([]Event, Event) // hands over events and the gap after them
	room int                  // for what waits, in bytes
	done chan struct{}        // closed when the sink has got everything

	mu      sync.Mutex
	handed  sync.Cond // what was taken has been handed over
	running bool      // somebody hands over
	closed  bool
	over    bool // done is closed
	timed   bool // the gap will have its time
	retry   bool // it has come
	in      uint64
	out     uint64   // of what is handed over just now, the number of the first; 0: nothing is
	turns   []*turns // of those whose events wait
	size    int      // of what waits
	lost    uint64   // how many were lost in all
	gap     Event    // what is lost and not told yet; its Count is 0 when nothing is
	since   time.Time
	told    uint64 // how many there were, those that an event stands for counted
	written uint64 // how many of them the sink took
	gaps    uint64 // how many others are told in gaps that it took
	err     error  // why the first one was lost
}

// turns are what waits of one user's.
type turns struct {
	owner  string
	events []numbered
	size   int
}

// numbered is an event with its place among all that were written.
type numbered struct {
	Event
	number uint64
	size   int
}

// NewQueue begins to hand events to a sink.
func NewQueue(sink Sink) *Queue { return NewQueueOf(sink, maxWaiting) }

// NewQueueOf is NewQueue with room for so many bytes.
func NewQueueOf(sink Sink, room int) *Queue {
	q := newQueue(room)
	q.give = func(batch []Event, gap Event) {
		for i := range batch {
			q.took(&batch[i], batch[i].stands(), sink.Write(&batch[i]))
		}
		if gap.Count > 0 {
			q.took(&gap, 0, sink.Write(&gap)) // those it tells of have been counted
		}
	}
	return q
}

// NewBatchQueue begins to hand events to a sink, many at a time.
func NewBatchQueue(sink Batch) *Queue {
	q := newQueue(maxWaiting)
	q.give = func(batch []Event, gap Event) {
		all := batch
		if gap.Count > 0 {
			all = append(all, gap)
		}
		if len(all) == 0 {
			return
		}
		n, err := sink.WriteAll(all)
		q.mu.Lock()
		defer q.mu.Unlock()
		for i := range all[:min(n, len(batch))] { // those that a gap tells of have been counted
			q.written += all[i].stands()
		}
		for i := n; i < len(batch); i++ {
			q.lose(&batch[i], batch[i].stands(), err)
		}
		switch {
		case gap.Count > 0 && n < len(all):
			q.lose(&gap, 0, err)
		case gap.Count > 0:
			q.gaps += gap.Count
		}
	}
	return q
}

func newQueue(room int) *Queue {
	q := &Queue{room: room, done: make(chan struct{})}
	q.handed.L = &q.mu
	return q
}

// Write takes an event in. It doesn't wait.
func (q *Queue) Write(e *Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.told += e.stands()
	defer q.start()
	short := e.bounded()
	e = &short
	size, of := e.size(), q.of(e.Owner)
	share := (q.room - q.size) / 3
	if e.Kind == SessionStart || e.Kind == SessionEnd || e.Kind == Daemon { // there are few, and much hangs on them
		share = q.room - q.size
	}
	part := 1
	if e.Kind == Exec { // the other half is for what is refused
		part = 2
	}
	if q.over || q.size+size > q.room/part || e.OfUser() && of.size+size > share/part {
		q.lose(e, e.stands(), errFull)
		return
	}
	if q.in++; len(of.events) == 0 {
		q.turns = append(q.turns, of)
	}
	of.events = append(of.events, numbered{*e, q.in, size})
	q.size, of.size = q.size+size, of.size+size
}

// of is what waits of a user's.
func (q *Queue) of(owner string) *turns {
	for _, t := range q.turns {
		if t.owner == owner {
			return t
		}
	}
	return &turns{owner: owner}
}

// Lost is how many events the sink will never get, each counted as often as it happened.
func (q *Queue) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Untold is how many events a sink has neither got nor been told that they're missing.
func (q *Queue) Untold() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.told - q.written - q.gaps
}

// Sync waits until the sink has been handed all that was written before.
func (q *Queue) Sync() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for all := q.in; q.oldest() <= all; {
		q.handed.Wait()
	}
}

// Await waits until the sink has been handed all that was written before, but no longer than d, and returns why the first event was lost, if one was.
func (q *Queue) Await(d time.Duration) error {
	end := time.Now().Add(d)
	defer time.AfterFunc(d, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.handed.Broadcast()
	}).Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	for all := q.in; q.oldest() <= all && time.Now().Before(end); {
		q.handed.Wait()
	}
	return q.err
}

// oldest is the number of the first event that hasn't been handed over.
func (q *Queue) oldest() uint64 {
	first := q.in + 1
	if q.out > 0 {
		first = q.out
	}
	for _, t := range q.turns {
		first = min(first, t.events[0].number)
	}
	return first
}

// lose adds an event to the gap, which is of no session when it's of several. It stands for n that weren't counted as lost before.
func (q *Queue) lose(e *Event, n uint64, why error) {
	if q.gap.Count == 0 {
		q.since = time.Now()
		q.gap = Event{
			Kind: Gap, First: e.First, Session: e.Session, Owner: e.Owner, Tool: e.Tool, Agent: e.Agent, Mode: e.Mode,
			Policy: e.Policy, Digest: e.Digest, Mechanism: "queue",
			Extra: map[string]string{"why": why.Error(), "exact": "true"},
		}
	}
	if e.Kind == Gap && e.Extra["exact"] != "true" {
		q.gap.Extra["exact"] = "false"
	}
	if q.gap.Owner != e.Owner {
		q.gap.Owner = ""
	}
	if q.gap.Session != e.Session {
		q.gap.Session, q.gap.Tool, q.gap.Agent, q.gap.Policy, q.gap.Digest = "", "", "", "", ""
	}
	if q.gap.First.IsZero() {
		q.gap.First = e.Time
	}
	q.gap.Time = e.Time
	q.gap.Count += e.stands()
	q.gap.Execs += e.OfExecs()
	q.lost += n
	if q.err == nil {
		q.err = why
	}
}

// start has somebody hand over what waits. Nobody does while nothing waits: there are as many queues as sessions, and more.
func (q *Queue) start() {
	if !q.running {
		q.running = true
		go q.run()
	}
}

// run hands over until nothing waits.
func (q *Queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for last := false; !last && q.ready(); {
		batch, gap := q.take()
		last = q.closed && len(batch) == 0 // a gap that isn't taken now never is
		q.mu.Unlock()
		q.give(batch, gap)
		q.mu.Lock()
		q.out = 0
		q.handed.Broadcast()
	}
	q.running = false
	if q.closed && !q.over {
		q.over = true
		close(q.done)
	}
	if q.gap.Count > 0 && !q.over && !q.timed {
		q.timed = true
		time.AfterFunc(retryTime, q.again)
	}
}

// again has the gap told though nothing waits.
func (q *Queue) again() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timed, q.retry = false, true
	q.start()
}

// ready tells whether there is something to hand over.
func (q *Queue) ready() bool {
	return len(q.turns) > 0 || q.gap.Count > 0 && (q.retry || q.closed)
}

// take returns what is handed over next, each user's in turn, and the gap when it follows.
func (q *Queue) take() (batch []Event, gap Event) {
	q.out = q.oldest()
	for size := 0; size < maxHanded && len(q.turns) > 0; {
		t := q.turns[0]
		before := t.size
		batch = t.take(batch)
		q.size, size = q.size-before+t.size, size+before-t.size
		if q.turns = q.turns[1:]; len(t.events) > 0 {
			q.turns = append(q.turns, t)
		}
	}
	if len(q.turns) == 0 || time.Since(q.since) >= retryTime {
		gap, q.gap, q.retry = q.gap, Event{}, false
	}
	return batch, gap
}

// take moves the first events, one at least, to a batch.
func (t *turns) take(batch []Event) []Event {
	n := 0
	for size := 0; n < len(t.events) && size < maxTurn; n++ {
		batch = append(batch, t.events[n].Event)
		size += t.events[n].size
		t.size -= t.events[n].size
	}
	clear(t.events[:n]) // what they hold isn't waiting any more
	t.events = t.events[n:]
	return batch
}

// took notes what the sink did with an event that stands for n.
func (q *Queue) took(e *Event, n uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.lose(e, n, err)
		return
	}
	q.written += n
	if n == 0 {
		q.gaps += e.Count
	}
}

// Close waits until the sink has got everything, as long as it takes something every stuckTime and no longer than closeTime.
// It returns how many events the sink never got, each counted as often as it happened, and why the first of them wasn't.
func (q *Queue) Close() (missing uint64, why error) {
	q.mu.Lock()
	q.closed = true
	q.start()
	q.mu.Unlock()
	over := time.After(closeTime)
	for before, _ := q.missing(); ; {
		select {
		case <-q.done:
			return q.missing()
		case <-over:
			missing, _ = q.missing()
			return missing, errSlow
		case <-time.After(stuckTime):
		}
		if missing, _ = q.missing(); missing == before {
			return missing, errStuck
		}
		before = missing
	}
}

// missing is how many events the sink hasn't got.
func (q *Queue) missing() (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.told - q.written, q.err
}

// OfUser tells whether an event is of an ordinary user's session: there may be no end of these. Root's and nobody's aren't bounded.
func (e *Event) OfUser() bool { return e.Owner != "" && e.Owner != "0" }

// stands is how many things happened of which the event tells.
func (e *Event) stands() uint64 { return max(1, e.Count) }

// OfExecs is of how many programs that were executed the event tells, or was told.
func (e *Event) OfExecs() uint64 {
	if e.Kind == Exec {
		return e.stands()
	}
	return e.Execs
}

// LostDenials is how many of those that a gap counts may be denials; ok is false where none is.
func (e *Event) LostDenials() (n uint64, ok bool) {
	return e.Count - e.Execs, e.Kind == Gap && (e.Count == 0 || e.Count > e.Execs)
}

// size is about what an event takes of memory. Nearly all of what can be long was chosen by the guarded.
func (e *Event) size() int {
	n := int(unsafe.Sizeof(*e))
	for _, s := range append(e.names(), e.texts()...) {
		n += len(*s)
	}
	for _, d := range append(e.Degraded[:len(e.Degraded):len(e.Degraded)], e.Removed...) {
		n += int(unsafe.Sizeof(d)) + len(d)
	}
	for _, p := range e.Process {
		n += int(unsafe.Sizeof(p)) + len(p.Argv)*int(unsafe.Sizeof("")) + p.size()
	}
	for k, v := range e.Extra {
		n += len(k) + len(v)
	}
	return n
}
