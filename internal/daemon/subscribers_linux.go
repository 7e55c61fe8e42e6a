package daemon

import (
	"strconv"
	"sync"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// waitingEvents bounds a subscriber's queue, in bytes.
const waitingEvents = 256 << 10

// hub sends events to all subscribers.
type hub struct {
	mu        sync.Mutex
	stream    *event.Stream
	counts    *counts
	audit     *audit.Log // nil: none
	followers map[*follower]bool
}

// follower is a subscriber.
type follower struct {
	uid   int
	wants func(*event.Event) bool
	queue *event.Queue
}

// publish numbers an event of a user's session and sends it. It doesn't block, and redacts secrets before it locks.
func (h *hub) publish(uid int, e *event.Event) {
	owned := e.Clean()
	if e = &owned; e.Session != "" {
		e.Owner = strconv.Itoa(uid)
	}
	h.counts.event(e)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.audit != nil {
		h.audit.Record(e) // which numbers them itself
	}
	out := h.stream.Next(e)
	for f := range h.followers {
		if mayAsk(f.uid, uid) && f.wants(&out) {
			f.queue.Write(&out)
		}
	}
}

func (h *hub) subscribe(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.followers[f] = true
}

// unsubscribe returns when the queue of f has been written, or failed.
func (h *hub) unsubscribe(f *follower) {
	h.mu.Lock()
	delete(h.followers, f)
	h.mu.Unlock()
	_, _ = f.queue.Close()
}

// mayAsk reports whether a user may see an owner's sessions and events.
func mayAsk(uid, owner int) bool { return uid == 0 || uid == owner }

// sink is a function as an event.Writer.
type sink func(*event.Event) error

// Write calls it.
func (f sink) Write(e *event.Event) error { return f(e) }
