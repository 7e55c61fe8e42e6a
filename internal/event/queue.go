package event

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// defaultCapacity is the capacity of a queue in bytes of memory. Every event counts with at least its own size, so that the
// capacity also limits the number of events.
const defaultCapacity = 8 << 20

const (
	stuckTimeout = 2 * time.Second  // how long a sink may accept nothing before Close returns
	closeTimeout = 30 * time.Second // how long Close waits altogether
	gapDelay     = time.Second      // how long after a loss its gap is due, with or without other events
)

var (
	errFull  = errors.New("events arrived faster than they were read")
	errStuck = fmt.Errorf("none was read for %v", stuckTimeout)
	errSlow  = fmt.Errorf("not all were read within %v", closeTimeout)
)

// Sink receives the events of a queue, for example a Writer. One goroutine calls it.
type Sink interface{ Write(*Event) error }

// BatchSink receives several events at a time. It returns the number of events that it accepted, the first ones, and why it
// failed for the rest.
type BatchSink interface {
	WriteAll(events []Event) (n int, err error)
}

// Queue decouples producers of events, which must never block, from a sink that may be slow, stuck or failing.
//
// The queue counts the events that exceed its capacity and those that the sink fails to write. A Gap reports them once the sink
// has accepted the waiting events, or after gapDelay. The order of each user's events is preserved; fairness.go has the quotas.
type Queue struct {
	deliver  func([]Event, Event) // passes events and the gap after them to the sink
	capacity int                  // in bytes
	done     chan struct{}        // closed when the sink has received everything

	mu         sync.Mutex
	progress   sync.Cond // a batch was delivered
	running    bool      // a goroutine delivers
	closed     bool
	finished   bool // done is closed
	timerSet   bool // a timer will set gapDue
	gapDue     bool
	accepted   uint64        // the number of the last event that was queued
	delivering uint64        // the number of the first event in the batch being delivered, or 0
	owners     []*ownerQueue // the users with waiting events, in the order of their turns
	size       int           // of the waiting events, in bytes
	lost       uint64        // how many events were lost altogether
	gap        Event         // the losses not reported yet; Count is 0 if there are none
	since      time.Time     // the first of these losses
	total      uint64        // how many events there were, with each one's Count
	written    uint64        // how many of them the sink accepted
	reported   uint64        // the number of events in the gaps that it accepted
	err        error         // the cause of the first loss
}

// NewQueue starts a queue in front of a sink.
func NewQueue(sink Sink) *Queue { return NewQueueSize(sink, defaultCapacity) }

// NewQueueSize is NewQueue with a capacity in bytes.
func NewQueueSize(sink Sink, capacity int) *Queue {
	q := newQueue(capacity)
	q.deliver = func(batch []Event, gap Event) {
		for i := range batch {
			q.record(&batch[i], batch[i].occurrences(), sink.Write(&batch[i]))
		}
		if gap.Count > 0 {
			q.record(&gap, 0, sink.Write(&gap)) // the losses in it have been counted
		}
	}
	return q
}

// NewBatchQueue starts a queue in front of a sink that receives several events at a time.
func NewBatchQueue(sink BatchSink) *Queue {
	q := newQueue(defaultCapacity)
	q.deliver = func(batch []Event, gap Event) {
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
		for i := range all[:min(n, len(batch))] {
			q.written += all[i].occurrences()
		}
		for i := n; i < len(batch); i++ {
			q.recordLoss(&batch[i], batch[i].occurrences(), err)
		}
		switch {
		case gap.Count > 0 && n < len(all):
			q.recordLoss(&gap, 0, err) // the losses in it have been counted
		case gap.Count > 0:
			q.reported += gap.Count
		}
	}
	return q
}

func newQueue(capacity int) *Queue {
	q := &Queue{capacity: capacity, done: make(chan struct{})}
	q.progress.L = &q.mu
	return q
}

// Write queues an event. It doesn't block.
func (q *Queue) Write(e *Event) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.total += e.occurrences()
	defer q.start()
	truncated := e.truncated()
	e = &truncated
	size, owner := e.size(), q.ownerQueue(e.Owner)
	if q.finished || q.exceedsQuota(e, size, owner) {
		q.recordLoss(e, e.occurrences(), errFull)
		return
	}
	if q.accepted++; len(owner.events) == 0 {
		q.owners = append(q.owners, owner)
	}
	owner.events = append(owner.events, numbered{*e, q.accepted, size})
	q.size, owner.size = q.size+size, owner.size+size
}

// Lost returns how many events the sink never receives, each counted as often as it happened.
func (q *Queue) Lost() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.lost
}

// Unreported returns how many events the sink has neither received nor has in a gap.
func (q *Queue) Unreported() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total - q.written - q.reported
}

// Sync waits until all events written before have been delivered.
func (q *Queue) Sync() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for all := q.accepted; q.oldest() <= all; {
		q.progress.Wait()
	}
}

// Await is Sync for at most d. It returns why the first event was lost, if one was.
func (q *Queue) Await(d time.Duration) error {
	deadline := time.Now().Add(d)
	defer time.AfterFunc(d, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.progress.Broadcast()
	}).Stop()
	q.mu.Lock()
	defer q.mu.Unlock()
	for all := q.accepted; q.oldest() <= all && time.Now().Before(deadline); {
		q.progress.Wait()
	}
	return q.err
}

// oldest returns the number of the first event that hasn't been delivered.
func (q *Queue) oldest() uint64 {
	oldest := q.accepted + 1
	if q.delivering > 0 {
		oldest = q.delivering
	}
	for _, o := range q.owners {
		oldest = min(oldest, o.events[0].number)
	}
	return oldest
}

// recordLoss adds an event to the gap. n is the number of occurrences that haven't been counted as lost before. A gap with
// events of several sessions names none of them.
func (q *Queue) recordLoss(e *Event, n uint64, cause error) {
	if q.gap.Count == 0 {
		q.since = time.Now()
		q.gap = Event{
			Kind: Gap, First: e.First, Session: e.Session, Owner: e.Owner, Tool: e.Tool, Agent: e.Agent, Mode: e.Mode,
			Policy: e.Policy, Digest: e.Digest, Mechanism: "queue",
			Extra: map[string]string{"why": cause.Error(), "exact": "true"},
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
	q.gap.Count += e.occurrences()
	q.gap.Execs += e.ExecCount()
	q.lost += n
	if q.err == nil {
		q.err = cause
	}
}

// start starts the delivering goroutine. It ends when nothing waits, because there are more queues than sessions.
func (q *Queue) start() {
	if !q.running {
		q.running = true
		go q.run()
	}
}

// run delivers until nothing waits.
func (q *Queue) run() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for last := false; !last && q.ready(); {
		batch, gap := q.nextBatch()
		last = q.closed && len(batch) == 0 // the final gap has one attempt
		q.mu.Unlock()
		q.deliver(batch, gap)
		q.mu.Lock()
		q.delivering = 0
		q.progress.Broadcast()
	}
	q.running = false
	if q.closed && !q.finished {
		q.finished = true
		close(q.done)
	}
	if q.gap.Count > 0 && !q.finished && !q.timerSet {
		q.timerSet = true
		time.AfterFunc(gapDelay, q.retryGap)
	}
}

// retryGap delivers the gap when no events wait.
func (q *Queue) retryGap() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timerSet, q.gapDue = false, true
	q.start()
}

// ready reports whether there is anything to deliver.
func (q *Queue) ready() bool {
	return len(q.owners) > 0 || q.gap.Count > 0 && (q.gapDue || q.closed)
}

// record counts the result of writing an event with n occurrences.
func (q *Queue) record(e *Event, n uint64, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err != nil {
		q.recordLoss(e, n, err)
		return
	}
	q.written += n
	if n == 0 {
		q.reported += e.Count
	}
}

// Close waits until the sink has received everything. It stops waiting when the sink accepts nothing for stuckTimeout, or after
// closeTimeout. It returns how many events the sink never received, each counted as often as it happened, and why the first one
// was lost.
func (q *Queue) Close() (missing uint64, why error) {
	q.mu.Lock()
	q.closed = true
	q.start()
	q.mu.Unlock()
	deadline := time.After(closeTimeout)
	for before, _ := q.undelivered(); ; {
		select {
		case <-q.done:
			return q.undelivered()
		case <-deadline:
			missing, _ = q.undelivered()
			return missing, errSlow
		case <-time.After(stuckTimeout):
		}
		if missing, _ = q.undelivered(); missing == before {
			return missing, errStuck
		}
		before = missing
	}
}

// undelivered returns how many events the sink hasn't received.
func (q *Queue) undelivered() (uint64, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.total - q.written, q.err
}

// occurrences returns how often the event happened.
func (e *Event) occurrences() uint64 { return max(1, e.Count) }

// ExecCount returns how many executed programs the event reports, or lost.
func (e *Event) ExecCount() uint64 {
	if e.Kind == Exec {
		return e.occurrences()
	}
	return e.Execs
}

// LostDenials returns how many of the events that a gap counts may be denials. ok is false if none may.
func (e *Event) LostDenials() (n uint64, ok bool) {
	return e.Count - e.Execs, e.Kind == Gap && (e.Count == 0 || e.Count > e.Execs)
}
