package approval

import (
	"container/list"
	"encoding/hex"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// The bounds of a set. An approval that ended without a decision counts until it's gone.
const (
	maxPending  = 10000
	maxConfined = 64       // of those that confined clients have asked for
	maxBytes    = 64 << 20 // of JSON, of all that are known
)

// Grace is how long an approval is known after it has ended.
const Grace = 15 * time.Second

// Client is who asks, reads or decides. The zero value sees what clients with the zero value have asked for, and nothing else.
type Client struct {
	Owner      string // the same for all confined processes that may read each other's requests
	Unconfined bool   // outside every session, and of its user or root: sees all, and decides
}

// Clock is the time. After calls do once, later and on another goroutine, unless stop is called first.
type Clock struct {
	Now   func() time.Time
	After func(d time.Duration, do func()) (stop func() bool)
}

// RealClock is the clock of the system.
func RealClock() Clock {
	return Clock{time.Now, func(d time.Duration, do func()) func() bool { return time.AfterFunc(d, do).Stop }}
}

// Set is the approvals of one process. It's safe for concurrent use.
//
// The approvals that it returns share memory with it: they must not be changed.
type Set struct {
	clock  Clock
	random io.Reader

	mu      sync.Mutex
	entries map[string]*entry
	order   *list.List    // the entries, the last changed one last
	changed chan struct{} // closed at the next change
	version uint64        // the number of changes
	asked   uint64        // the number of approvals ever

	open, confined, bytes int // those that count for the limits

	spent, spentConfined spentIDs
}

// New returns a set without approvals. Ids are made from random, which must be unpredictable.
func New(clock Clock, random io.Reader) *Set {
	return &Set{clock: clock, random: random, entries: map[string]*entry{}, order: list.New(), changed: make(chan struct{})}
}

type state uint8

const (
	pending state = iota
	decided
	expired
	cancelled
)

// entry is one approval. Everything but ended, client and request.ID changes under the set's lock.
type entry struct {
	*request
	client  Client
	state   state
	number  uint64        // of the approval
	version uint64        // of its last change
	at      *list.Element // in order
	ended   chan struct{} // closed when it isn't pending any more
	storing chan struct{} // closed when the decision that is being stored is made, or isn't; nil if there is none
	late    bool          // its time ended in the meantime
	stop    func() bool   // its timer
}

func (e *entry) copy() *message.Approval {
	a := e.Approval
	return &a
}

// Ask adds an approval that a person answers within a time, and returns it with its id and times. Without an id it gets a random one. If the
// id is that of the same request of the same client, which is pending or ended less than Grace ago, the answer is that one. An approval with
// Resolved isn't pending any more; without a Decision nobody has decided about it.
//
// The error is a *RejectedError, a *ConflictError or a *FullError, or comes from the source of random ids.
func (s *Set) Ask(c Client, a *message.Approval, timeout time.Duration) (*message.Approval, error) {
	if timeout < minTimeout || timeout > maxTimeout {
		return nil, rejected("an approval can't be waited for for %s: %s to %s are possible", timeout, minTimeout, maxTimeout)
	}
	r, err := newRequest(c, a)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.ID == "" {
		id := make([]byte, 16)
		if _, err := io.ReadFull(s.random, id); err != nil {
			return nil, fmt.Errorf("no random id for an approval: %w", err)
		}
		r.ID = hex.EncodeToString(id)
	}
	now := s.clock.Now()
	if e := s.find(r.ID); e != nil {
		if e.digest != r.digest {
			return nil, &ConflictError{r.ID}
		}
		if e.state != cancelled {
			return e.copy(), nil
		}
		s.remove(e)
	}
	if s.spent.conflicts(r.ID, r) || s.spentConfined.conflicts(r.ID, r) {
		return nil, &ConflictError{r.ID}
	}
	if err := s.checkLimits(c, r.size, now); err != nil {
		return nil, err
	}
	return s.add(c, r, now, timeout).copy(), nil
}

func (s *Set) checkLimits(c Client, size int, now time.Time) error {
	switch {
	case s.open >= maxPending:
		return &FullError{fmt.Sprintf("%d approvals are pending: wait until some are decided", s.open)}
	case s.bytes+size > maxBytes:
		return &FullError{fmt.Sprintf("the pending approvals have %d MiB: wait until some are decided", s.bytes>>20)}
	case !c.Unconfined && s.confined >= maxConfined:
		return &FullError{fmt.Sprintf("%d approvals of confined processes are pending, or ended without a decision less than %s ago: wait until some are decided", s.confined, Grace)}
	case !c.Unconfined && s.spentConfined.full(now):
		return &FullError{fmt.Sprintf("confined processes have asked for %d approvals within a day: no more are possible", maxSpent)}
	}
	return nil
}

func (s *Set) add(c Client, r *request, now time.Time, timeout time.Duration) *entry {
	s.asked++
	e := &entry{request: r, client: c, number: s.asked, ended: make(chan struct{})}
	r.Created, r.Expires = now.UnixMilli(), now.Add(timeout).UnixMilli()
	s.entries[r.ID], e.at = e, s.order.PushBack(e)
	s.count(e, 1)
	s.bytes += r.size
	e.stop = s.clock.After(timeout, func() { s.expire(e) })
	s.publish(e)
	return e
}

// count adds an approval to those that count for the limits, or removes it.
func (s *Set) count(e *entry, n int) {
	s.open += n
	if !e.client.Unconfined {
		s.confined += n
	}
}

// publish makes the last change of an approval visible to those who wait for changes.
func (s *Set) publish(e *entry) {
	s.version++
	e.version = s.version
	s.order.MoveToBack(e.at)
	close(s.changed)
	s.changed = make(chan struct{})
}

// find returns the approval with an id, nil if there is none. It ends one whose time has ended, in case that the timer is late: timers
// don't run while a machine sleeps.
func (s *Set) find(id string) *entry {
	e := s.entries[id]
	if e != nil && e.state == pending && e.storing == nil && s.clock.Now().UnixMilli() >= e.Expires {
		s.end(e, expired)
	}
	return e
}

// visible returns the approval with an id, nil if there is none that a client may see.
func (s *Set) visible(c Client, id string) *entry {
	if e := s.find(id); e != nil && e.isFor(c) {
		return e
	}
	return nil
}

// isFor reports whether a client may see the approval.
func (e *entry) isFor(c Client) bool {
	return c.Unconfined || !e.client.Unconfined && e.client.Owner == c.Owner
}

func (s *Set) expire(e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case e.state != pending:
	case e.storing != nil:
		e.late = true
	default:
		s.end(e, expired)
	}
}

// end ends a pending approval: it releases all who wait for it. After Grace it's removed.
func (s *Set) end(e *entry, how state) {
	e.stop()
	e.state = how
	if how == decided {
		s.count(e, -1)
	} else {
		e.Resolved = s.clock.Now().UnixMilli()
	}
	close(e.ended)
	e.stop = s.clock.After(Grace, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.entries[e.ID] == e {
			s.remove(e)
		}
	})
	s.publish(e)
}

// remove removes an approval that has ended.
func (s *Set) remove(e *entry) {
	e.stop()
	delete(s.entries, e.ID)
	s.order.Remove(e.at)
	s.bytes -= e.size
	if e.state != decided {
		s.count(e, -1)
	}
	if now := s.clock.Now(); e.client.Unconfined {
		s.spent.add(e.ID, e.request, now, false)
	} else {
		s.spentConfined.add(e.ID, e.request, now, true)
	}
}
