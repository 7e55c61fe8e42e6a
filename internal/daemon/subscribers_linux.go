package daemon

import (
	"strconv"
	"sync"

	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/event"
)

// waitingEvents bounds what waits for each who listens, in bytes.
const waitingEvents = 256 << 10

// hub hands events to all who listen.
type hub struct {
	mu        sync.Mutex
	stream    *event.Stream
	counts    *counts
	audit     *audit.Log // nil: none
	listeners map[*follower]bool
}

// follower is somebody who listens.
type follower struct {
	uid   int
	wants func(*event.Event) bool
	queue *event.Queue
}

// publish numbers an event of a user's session and hands it out. It doesn't wait, nor has others wait while secrets are looked for.
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
	for f := range h.listeners {
		if mayAsk(f.uid, uid) && f.wants(&out) {
			f.queue.Write(&out)
		}
	}
}

func (h *hub) join(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listeners[f] = true
}

// leave returns when all that f was handed has gone out, or can't.
func (h *hub) leave(f *follower) {
	h.mu.Lock()
	delete(h.listeners, f)
	h.mu.Unlock()
	_, _ = f.queue.Close()
}

// mayAsk tells whether a user may know of what is another one's.
func mayAsk(uid, owner int) bool { return uid == 0 || uid == owner }

// sink is a function that takes events.
type sink func(*event.Event) error

// Write calls it.
func (f sink) Write(e *event.Event) error { return f(e) }
