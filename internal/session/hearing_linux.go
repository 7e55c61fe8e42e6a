package session

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// Hearing makes events of what is refused in a session that another process started.
type Hearing struct {
	run *run

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
	tell       func()
}

// Heard says of whom to hear. Of cfg the names of the policy in force, the other names and the queue count.
type Heard struct {
	ID       uint64
	PID      int  // the toolguard that started it, which isn't one of the guarded; 0: it's guarded itself, and told of like all others
	Resumed  bool // somebody else heard of it until now, who has told what the kernel couldn't, or missed it
	Policies func() (map[uint32]*policy.Compiled, error)
}

// Hear begins to tell of a session: every event goes to cfg.Events.
func Hear(s *loader.Session, who Heard, cfg Config) *Hearing {
	h := newHearing(who, cfg)
	h.run.held = &local{Session: s}
	h.run.denials.counts = s.Counts
	if who.Resumed {
		before := s.Counts()
		h.run.denials.untold, h.run.denials.unrecorded = before.Lost+before.Suppressed, before.Unrecorded
	}
	s.Listen(h.refused)
	return h
}

func newHearing(who Heard, cfg Config) *Hearing {
	r := &run{cfg: cfg, backend: backend{level: seccomp.Whole}, number: who.ID, self: who.PID, id: fmt.Sprintf("%016x", who.ID)}
	r.report.Backend = "bpf"
	r.denials = newDenials(r, 0)
	return &Hearing{run: r, find: who.Policies, found: sync.NewCond(&r.denials.mu)}
}

// First is the generation of the policy that a session begins with: its filters of system calls are of that one to its end.
const First = 1

// refused tells of a refusal, or of a program that was executed: that takes no policy.
func (h *Hearing) refused(k loader.Event) {
	generation := k.Generation
	switch k.Op {
	case loader.OpExec:
		h.do(func() { h.run.denials.take(k) })
		return
	case loader.OpCall:
		generation = First
	}
	h.by(generation, func() { h.run.denials.take(k) })
}

// room is how many refusals wait while the policies are looked for: many times what the kernel has room for.
const room = 2000

// by has f tell by the policy that decided, which needn't be the one in force any more, while nothing else tells of the session. Whoever
// reads the kernel's events doesn't wait for the policies: it has little room for more.
func (h *Hearing) by(generation uint32, f func()) {
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
		h.tell(refusal{generation, f}, h.remember())
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
			h.tell(r, err)
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

func (h *Hearing) tell(r refusal, err error) {
	if err != nil {
		h.run.denials.gap("toolguardd", 1, fmt.Sprintf("its policy can't be looked at: %v", err), true)
		return
	}
	c := h.policies[r.generation]
	if c == nil {
		h.run.denials.gap("toolguardd", 1, "its policy isn't known any more: the session has got others since", true)
		return
	}
	h.used = true
	inForce := h.run.cfg.Policy
	h.run.cfg.Policy = c
	r.tell()
	h.run.cfg.Policy = inForce
}

// do runs f while nothing else tells of the session.
func (h *Hearing) do(f func()) {
	h.run.denials.mu.Lock()
	defer h.run.denials.mu.Unlock()
	f()
}

// Reloaded says that the session gets another policy. What the one before decides is told until it's the one before last.
func (h *Hearing) Reloaded(generation uint32, c *policy.Compiled) {
	h.do(func() {
		h.caughtUp()
		if h.remember() != nil {
			h.policies = map[uint32]*policy.Compiled{}
		}
		maps.DeleteFunc(h.policies, func(g uint32, _ *policy.Compiled) bool { return g != First && g+1 < generation })
		h.policies[generation] = c
		h.run.cfg.Policy = &policy.Compiled{Name: c.Name, Digest: c.Digest} // which all events have
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
	h.do(func() { h.run.self = 0 })
}

// Tell tells an event of the session's beside those that the kernel tells.
func (h *Hearing) Tell(e event.Event) {
	h.do(func() { h.run.emit(h.run.about(e)) })
}

// LimitMet tells that a limit was met.
func (h *Hearing) LimitMet(name string, place policy.Place, times uint64) {
	if times > 0 {
		h.run.limitMet(name, place, times)
	}
}

// Missed tells that what happened may not have been told.
func (h *Hearing) Missed(why string) {
	h.do(func() { h.run.denials.gap("toolguardd", 0, why, false) })
}

// End gives the session up, after all that happened in it has been told.
func (h *Hearing) End() loader.Counts {
	h.toEnd()
	return h.run.denials.hearRest()
}

// toEnd waits until nothing waits, and nothing does from now on: what comes still is told at once.
func (h *Hearing) toEnd() {
	h.do(func() {
		h.caughtUp()
		h.ending = true
	})
}
