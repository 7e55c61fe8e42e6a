package event

import (
	"time"
	"unsafe"
)

// The maximum sizes in bytes of a batch, and of one user's turn in it. The rest waits while a batch is being delivered.
const (
	maxBatch      = 256 << 10
	maxOwnerBatch = 64 << 10
)

// ownerQueue has the waiting events of one user.
type ownerQueue struct {
	owner  string
	events []numbered
	size   int
}

// numbered is an event with its number in the order of all queued events.
type numbered struct {
	Event
	number uint64
	size   int
}

// exceedsQuota reports whether an event must be dropped, so that a user who floods the queue doesn't displace other users' events.
// An ordinary user's events take at most a third of the free capacity, which is a quarter of the capacity that other users leave. With the
// start, the end and changes of sessions, which are few and matter most, they take at most half of that. Executed programs take
// at most half of each quota, so that denials have the other half.
func (q *Queue) exceedsQuota(e *Event, size int, owner *ownerQueue) bool {
	quota := (q.capacity - q.size) / 3
	if e.Kind == SessionStart || e.Kind == SessionEnd || e.Kind == Daemon {
		quota = q.capacity - q.size
	}
	fraction := 1
	if e.Kind == Exec {
		fraction = 2
	}
	return q.size+size > q.capacity/fraction || e.FromOrdinaryUser() && owner.size+size > quota/fraction
}

// ownerQueue returns the waiting events of a user.
func (q *Queue) ownerQueue(owner string) *ownerQueue {
	for _, o := range q.owners {
		if o.owner == owner {
			return o
		}
	}
	return &ownerQueue{owner: owner}
}

// nextBatch returns the events to deliver next, each user's in turn, and the gap if it is due.
func (q *Queue) nextBatch() (batch []Event, gap Event) {
	q.delivering = q.oldest()
	for size := 0; size < maxBatch && len(q.owners) > 0; {
		o := q.owners[0]
		before := o.size
		batch = o.moveTo(batch)
		q.size, size = q.size-before+o.size, size+before-o.size
		if q.owners = q.owners[1:]; len(o.events) > 0 {
			q.owners = append(q.owners, o)
		}
	}
	if len(q.owners) == 0 || time.Since(q.since) >= gapDelay {
		gap, q.gap, q.gapDue = q.gap, Event{}, false
	}
	return batch, gap
}

// moveTo moves the user's first events, at least one, to a batch.
func (o *ownerQueue) moveTo(batch []Event) []Event {
	n := 0
	for size := 0; n < len(o.events) && size < maxOwnerBatch; n++ {
		batch = append(batch, o.events[n].Event)
		size += o.events[n].size
		o.size -= o.events[n].size
	}
	clear(o.events[:n]) // so that their memory is freed
	o.events = o.events[n:]
	return batch
}

// FromOrdinaryUser reports whether an event belongs to the session of an ordinary user, whose events have a quota.
func (e *Event) FromOrdinaryUser() bool { return e.Owner != "" && e.Owner != "0" }

// size returns roughly the memory that an event takes.
func (e *Event) size() int {
	n := int(unsafe.Sizeof(*e))
	for _, s := range append(e.shortFields(), e.longFields()...) {
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
