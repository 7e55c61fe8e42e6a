package denials

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// Hearing makes events of what is refused in a session that another process started.
type Hearing struct {
	*Collector
	session *loader.Session // in the kernel; nil: another one collects what is denied there

	// policies are the session's first, and those in force now and before, by the generation of their image; nil: find finds them.
	policies map[uint32]*policy.Compiled
	find     func() (map[uint32]*policy.Compiled, error)
	used     bool       // of late
	waiting  []refusal  // until the policies are found
	found    *sync.Cond // nothing waits any more
	ending   bool
}

// refusal is how to tell of one, by the policy of that generation.
type refusal struct {
	generation uint32
	tell       func(*policy.Compiled)
}

// Heard is where a session's policies are, and who followed it until now.
type Heard struct {
	Resumed  bool // somebody else followed it until now, who has reported what the kernel couldn't, or missed it
	Policies func() (map[uint32]*policy.Compiled, error)
}

// Hear begins to emit events of a session to cfg.Events. Of cfg.Policy the names count.
func Hear(s *loader.Session, who Heard, cfg Config) *Hearing {
	h := NewHearing(who, cfg)
	h.session = s
	d := h.Collector
	d.counts = s.Counts
	if who.Resumed {
		before := s.Counts()
		d.untold, d.unrecorded = before.Lost+before.Suppressed, before.Unrecorded
	}
	s.Listen(h.refused)
	return h
}

// NewHearing emits what comes by ListenNetwork alone.
func NewHearing(who Heard, cfg Config) *Hearing {
	cfg.Mechanism, cfg.Others = "bpf", seccomp.Others{ABI: seccomp.Whole, Sealed: seccomp.Sealed()}
	d := newCollector(cfg, 0)
	return &Hearing{Collector: d, find: who.Policies, found: sync.NewCond(&d.mu)}
}

// refused tells of a refusal, or of a program that was executed: that takes no policy.
func (h *Hearing) refused(k loader.Event) {
	generation := k.Generation
	switch k.Op {
	case loader.OpExec:
		h.do(func() { h.take(h.policy, k) })
		return
	case loader.OpCall:
		generation = api.FirstGeneration
	}
	h.by(generation, func(c *policy.Compiled) { h.take(c, k) })
}

// room is how many refusals wait while the policies are looked for: many times what the kernel has room for.
const room = 2000

// by has f tell by the policy that decided, which needn't be the one in force any more, while nothing else tells of the session. Whoever
// reads the kernel's events doesn't wait for the policies: it has little room for more.
func (h *Hearing) by(generation uint32, f func(*policy.Compiled)) {
	h.do(func() {
		for len(h.waiting) >= room {
			h.found.Wait()
		}
		if h.policies == nil && !h.ending {
			if h.waiting = append(h.waiting, refusal{generation, f}); len(h.waiting) == 1 {
				go h.catchUp()
			}
			return
		}
		h.tellBy(refusal{generation, f}, h.remember())
	})
}

// catchUp finds the policies, and tells what has waited for them.
func (h *Hearing) catchUp() {
	found, err := h.find()
	h.do(func() {
		if err == nil {
			h.keep(found)
		}
		for _, r := range h.waiting {
			h.tellBy(r, err)
		}
		h.waiting = nil
		h.found.Broadcast()
	})
}

// caughtUp waits until nothing waits.
func (h *Hearing) caughtUp() {
	for len(h.waiting) > 0 {
		h.found.Wait()
	}
}

func (h *Hearing) tellBy(r refusal, err error) {
	if err != nil {
		h.gap("toolguardd", 1, fmt.Sprintf("its policy can't be looked at: %v", err), true)
		return
	}
	c := h.policies[r.generation]
	if c == nil {
		h.gap("toolguardd", 1, "its policy isn't known any more: the session has got others since", true)
		return
	}
	h.used = true
	r.tell(c)
}

// do runs f while nothing else tells of the session.
func (h *Hearing) do(f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
}

// Reloaded says that the session gets another policy. What the one before decides is told until it's the one before last.
func (h *Hearing) Reloaded(generation uint32, c *policy.Compiled) {
	h.do(func() {
		h.caughtUp()
		if h.remember() != nil {
			h.policies = map[uint32]*policy.Compiled{}
		}
		maps.DeleteFunc(h.policies, func(g uint32, _ *policy.Compiled) bool { return g != api.FirstGeneration && g+1 < generation })
		h.policies[generation] = c
		h.policy = &policy.Compiled{Name: c.Name, Digest: c.Digest} // which all events have
	})
}

// remembered is how long the policies are kept, at least, after they were used. They take much memory, and in most sessions nothing
// is refused.
const remembered = 5 * time.Second

// remember has the policies there for a while.
func (h *Hearing) remember() error {
	if h.policies != nil {
		return nil
	}
	found, err := h.find()
	if err == nil {
		h.keep(found)
	}
	return err
}

func (h *Hearing) keep(found map[uint32]*policy.Compiled) {
	h.policies, h.used = maps.Clone(found), false
	time.AfterFunc(remembered, h.forget)
}

// forget gives the policies up, unless they were used since it was asked last.
func (h *Hearing) forget() {
	h.do(func() {
		if !h.used {
			h.policies = nil
			return
		}
		h.used = false
		time.AfterFunc(remembered, h.forget)
	})
}

// Left says that the toolguard that started the session has gone. One of the guarded may get its number.
func (h *Hearing) Left() {
	h.do(func() { h.self = 0 })
}

// Tell tells an event of the session's beside those that the kernel tells.
func (h *Hearing) Tell(e event.Event) {
	h.do(func() { h.emit(h.about(e)) })
}

// ListenNetwork begins to collect what the kernel's programs for the network deny.
func (h *Hearing) ListenNetwork(s *cgroupsock.Session) error {
	return h.listenNetwork(s, func(k cgroupsock.Event) {
		h.by(k.Generation, func(c *policy.Compiled) { h.takeNet(c, k) })
	})
}

// EndNetwork takes in the last of it: first ends who else reports.
func (h *Hearing) EndNetwork(first func(), end func() cgroupsock.Counts) cgroupsock.Counts {
	h.toEnd()
	first()
	return h.Collector.EndNetwork(end)
}

// End gives the session up, after all that happened in it has been told.
func (h *Hearing) End() loader.Counts {
	h.toEnd()
	return h.hearRest(func() loader.Counts {
		if h.session == nil {
			return loader.Counts{}
		}
		counts, err := h.session.End()
		if err != nil {
			h.cfg.warn("the session could not be taken out of the kernel: %v", err)
		}
		h.session = nil
		return counts
	})
}

// toEnd waits until nothing waits, and nothing does from now on: what comes still is told at once.
func (h *Hearing) toEnd() {
	h.do(func() {
		h.caughtUp()
		h.ending = true
	})
}
