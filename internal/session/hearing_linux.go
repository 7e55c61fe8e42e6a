package session

import (
	"fmt"
	"maps"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// Hearing makes events of what is refused in a session that another process started.
type Hearing struct {
	run *run

	// policies are those that the session has had, by the generation of their image.
	policies map[uint32]*policy.Compiled
}

// Heard says of whom to hear. Of cfg the policy in force, the names and the queue count.
type Heard struct {
	ID       uint64
	PID      int // the toolguard that started it, which isn't one of the guarded
	Policies map[uint32]*policy.Compiled
}

// Hear begins to tell of a session: every event goes to cfg.Events.
func Hear(s *loader.Session, who Heard, cfg Config) *Hearing {
	h := newHearing(who, cfg)
	h.run.held = &local{Session: s}
	h.run.denials.counts = s.Counts
	s.Listen(h.refused)
	return h
}

func newHearing(who Heard, cfg Config) *Hearing {
	r := &run{cfg: cfg, level: seccomp.Whole, number: who.ID, self: who.PID, id: fmt.Sprintf("%016x", who.ID)}
	r.report.Backend = "bpf"
	r.denials = newDenials(r, nil, 0)
	return &Hearing{r, maps.Clone(who.Policies)}
}

// refused tells of a refusal by the policy that decided.
func (h *Hearing) refused(k loader.Event) {
	h.decidedBy(k.Generation)
	h.run.denials.refused(k)
}

// decidedBy says which policy what is told next is about.
func (h *Hearing) decidedBy(generation uint32) {
	h.do(func() {
		if c := h.policies[generation]; c != nil {
			h.run.cfg.Policy = c
		}
	})
}

// do runs f while nothing else tells of the session.
func (h *Hearing) do(f func()) {
	h.run.denials.mu.Lock()
	defer h.run.denials.mu.Unlock()
	f()
}

// Reloaded says that the session gets another policy.
func (h *Hearing) Reloaded(generation uint32, c *policy.Compiled) {
	h.do(func() {
		h.policies[generation] = c
		h.run.cfg.Policy = c
	})
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
	return h.run.denials.hearRest()
}
