package approval

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// naive is what a set should answer, in the plainest words: each approval with the moment at which it ended, and no timers.
type naive struct {
	records []*record
	now     time.Time
}

type record struct {
	id, request string
	client      Client
	expires     time.Time
	ended       time.Time // zero: not yet
	outcome     string    // "null", "cancelled" or a decision
}

// find returns the last record with an id that is known, nil if there is none; gone: there is none, but there was one.
func (n *naive) find(id string) (found, gone *record) {
	for _, r := range n.records {
		if r.id != id {
			continue
		}
		if r.ended.IsZero() && !n.now.Before(r.expires) {
			r.ended, r.outcome = r.expires, "null"
		}
		if gone = r; r.ended.IsZero() || n.now.Before(r.ended.Add(Grace)) {
			found = r
		}
	}
	return found, gone
}

func (n *naive) ask(c Client, id, request string, timeout time.Duration) string {
	key := fmt.Sprintf("%s %+v", request, c)
	found, gone := n.find(id)
	switch {
	case gone != nil && gone.request != key:
		return "conflict"
	case found != nil && found.outcome != "cancelled":
		return "ok " + found.outcome
	}
	if found != nil { // the new one is there in its place
		found.ended = n.now.Add(-Grace)
	}
	n.records = append(n.records, &record{id: id, request: key, client: c, expires: n.now.Add(timeout)})
	return "ok "
}

func (n *naive) wait(c Client, id string) string {
	r, _ := n.find(id)
	switch {
	case r == nil || !c.Unconfined && c != r.client:
		return "unknown"
	case r.ended.IsZero():
		return "pending"
	}
	return r.outcome
}

func (n *naive) resolve(c Client, id, decision string, fails bool) string {
	r, _ := n.find(id)
	switch {
	case !c.Unconfined:
		return "confined"
	case r == nil || r.outcome == "null":
		return "unknown"
	case r.outcome == "cancelled":
		return "cancelled"
	case !r.ended.IsZero():
		return "decided"
	case decision == "maybe":
		return "not offered"
	case fails:
		return "not stored"
	}
	r.ended, r.outcome = n.now, decision
	return "ok"
}

func (n *naive) cancel(c Client, id string) string {
	r, _ := n.find(id)
	switch {
	case r == nil || !c.Unconfined && c != r.client || r.outcome == "null":
		return "unknown"
	case r.outcome == "cancelled":
		return "ok"
	case !r.ended.IsZero():
		return "decided"
	}
	r.ended, r.outcome = n.now, "cancelled"
	return "ok"
}

func (n *naive) list(c Client) (ids []string) {
	for _, r := range n.records {
		if found, _ := n.find(r.id); found == r && r.ended.IsZero() && (c.Unconfined || c == r.client) {
			ids = append(ids, r.id)
		}
	}
	return ids
}

// word names an error.
func word(err error) string {
	conflict, decided, notOffered := (*ConflictError)(nil), (*DecidedError)(nil), (*NotOfferedError)(nil)
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &conflict):
		return "conflict"
	case errors.As(err, &decided):
		return "decided"
	case errors.As(err, &notOffered):
		return "not offered"
	case errors.Is(err, errDisk):
		return "not stored"
	case errors.Is(err, ErrConfined):
		return "confined"
	case errors.Is(err, ErrCancelled):
		return "cancelled"
	case errors.Is(err, ErrUnknown):
		return "unknown"
	}
	return err.Error()
}

// Whatever is asked in whatever order, the set answers as the naive one, and counts as many approvals as there are.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, f := newTestSet()
		n := &naive{now: f.now}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			c := rapid.SampledFrom([]Client{user, confined, other}).Draw(t, "client")
			id := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "id")
			var got, want any
			do := rapid.SampledFrom([]string{"ask", "ask", "resolve", "cancel", "wait", "list", "advance", "sleep"}).Draw(t, "do")
			switch do {
			case "ask":
				request := rapid.SampledFrom([]string{"make", "rm"}).Draw(t, "request")
				timeout := time.Duration(rapid.IntRange(1, 30).Draw(t, "timeout")) * time.Second
				a, err := s.Ask(c, ask(id, request), timeout)
				text := word(err)
				if err == nil {
					text += " " + outcome(a)
				}
				got, want = text, n.ask(c, id, request, timeout)
			case "resolve":
				decision := rapid.SampledFrom([]string{message.AllowOnce, message.Deny, "maybe"}).Draw(t, "decision")
				fails := rapid.Bool().Draw(t, "fails")
				err := s.Resolve(c, id, decision, by, func(*message.Approval) error {
					if fails {
						return errDisk
					}
					return nil
				})
				got, want = word(err), n.resolve(c, id, decision, fails)
			case "cancel":
				got, want = word(s.Cancel(c, id)), n.cancel(c, id)
			case "wait":
				got, want = answer(s, c, id), n.wait(c, id)
			case "list":
				got, want = fmt.Sprint(ids(s.List(c))), fmt.Sprint(n.list(c))
			default:
				d := time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second
				if n.now = n.now.Add(d); do == "sleep" {
					f.sleep(d)
				}
				f.advance(n.now.Sub(f.now)) // timers that are late run now
			}
			if got != want {
				t.Fatalf("%s %s by %+v: got %v, want %v", do, id, c, got, want)
			}
			checkCounts(t, s)
		}
	})
}

func outcome(a *message.Approval) string {
	switch {
	case a.Resolved == 0:
		return ""
	case a.Decision == nil:
		return "null"
	}
	return *a.Decision
}

func checkCounts(t *rapid.T, s *Set) {
	t.Helper()
	open, confined, size := 0, 0, 0
	for _, e := range s.entries {
		if size += e.size; e.state == decided {
			continue
		}
		if open++; !e.client.Unconfined {
			confined++
		}
	}
	if open != s.open || confined != s.confined || size != s.bytes || s.order.Len() != len(s.entries) {
		t.Fatalf("%d open, %d confined, %d bytes; the set has %d, %d, %d; %d are in order", open, confined, size, s.open, s.confined, s.bytes, s.order.Len())
	}
}

// Used by many at once, the set ends each approval once, releases each process that waits, and forgets everything in the end.
func TestConcurrent(t *testing.T) {
	const clients, approvals = 8, 50
	f := newFakeClock()
	s := New(f.clock(), newRandom())
	var group, watchers sync.WaitGroup
	done := make(chan struct{})
	var mu sync.Mutex
	seen := map[string]int{}
	for range 3 {
		watchers.Go(func() {
			for version := uint64(0); ; {
				var list []message.Approval
				if list, version = s.Changes(user, version, done); list == nil {
					return
				}
				for _, a := range list {
					if a.Decision != nil {
						mu.Lock()
						seen[a.ID]++
						mu.Unlock()
					}
				}
			}
		})
	}
	made := 0
	for i := range clients {
		c := Client{Owner: fmt.Sprint(i), Unconfined: i%2 == 0}
		group.Go(func() {
			for n := range approvals {
				id := fmt.Sprintf("%d-%d", i, n)
				if _, err := s.Ask(c, ask(id, "make"), time.Minute); err != nil {
					t.Error(err)
					return
				}
				group.Go(func() { _ = s.List(c) })
				group.Go(func() {
					if err := s.Resolve(user, id, message.AllowOnce, by, nil); err == nil {
						mu.Lock()
						made++
						mu.Unlock()
					}
				})
				if n%3 == 0 {
					group.Go(func() { _ = s.Cancel(c, id) })
				}
				if n%5 == 0 {
					group.Go(func() { f.advance(time.Millisecond) })
				}
				if _, err := s.Wait(c, id, nil); err != nil && !errors.Is(err, ErrCancelled) {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if made < clients*approvals/2 {
		t.Error(made)
	}
	close(done)
	watchers.Wait()
	f.advance(time.Minute + Grace)
	if len(s.entries) != 0 || len(f.timers) != 0 || s.open != 0 || s.confined != 0 || s.bytes != 0 {
		t.Errorf("%d approvals, %d timers", len(s.entries), len(f.timers))
	}
	for id, times := range seen {
		if times > 3 {
			t.Errorf("three watchers got the decision about %s %d times", id, times)
		}
	}
	if len(seen) == 0 {
		t.Error("no watcher got a decision")
	}
}
