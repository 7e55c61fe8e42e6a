package daemon

import (
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
)

// expectThread makes the kernel add a thread of the client's to the session at its next operation that a hook sees.
func (s *session) expectThread(thread int) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.currentState() != api.Starting || s.record.Thread != 0 {
		return reject(409, "a thread has entered this session already")
	}
	if err := s.checkNested(); err != nil {
		return err
	}
	if err := peer.RequireNoNewPrivs(s.client.PID, thread); err != nil { // the BPF programs check it, too, but can't report it
		return err
	}
	if err := s.change(func(r *record) { r.Thread = thread }); err != nil {
		return err
	}
	if err := s.kernel.ExpectThread(s.thread(), s.from); err != nil {
		return err
	}
	s.endUnlessConfirmed()
	return nil
}

// checkNested returns an error unless the outer session's policy still restricts this session's.
func (s *session) checkNested() error {
	if s.from == 0 { // no outer session restricts it
		return nil
	}
	p, err := s.policies()
	if err != nil {
		return err
	}
	return s.d.checkNested(s.from, p.inForce)
}

// thread is the one that enters the session.
func (s *session) thread() loader.Thread {
	return loader.Thread{Process: s.client.PID, ID: s.record.Thread}
}

// entering bounds the time until the client confirms that its thread is in the session. Until then no events are collected, and the BPF
// programs check every task for the thread.
const entering = 10 * time.Second

// endUnlessConfirmed ends the session unless its client confirms in time that the thread is in it.
func (s *session) endUnlessConfirmed() {
	time.AfterFunc(entering, func() {
		s.changing.Lock()
		defer s.changing.Unlock()
		if s.currentState() == api.Starting {
			s.d.log("session %s is ended: process %d didn't confirm in time that its thread is in the session", s.id, s.client.PID)
			s.stop()
		}
	})
}

// confirmThread checks that the thread is in the session, and starts to report denials.
func (s *session) confirmThread() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.currentState() != api.Starting || s.record.Thread == 0 {
		return reject(409, "no thread is about to enter this session")
	}
	if err := s.kernel.ConfirmThread(s.thread()); err != nil {
		return err
	}
	if s.kernel.Counts().Living <= 0 {
		return reject(409, "the thread isn't in the session: it has done nothing that a hook sees since")
	}
	if err := s.change(func(r *record) { r.Info.State = api.Running }); err != nil {
		return err
	}
	if !s.startReporting() {
		return reject(409, "session %s is being ended", s.id)
	}
	s.emitStart()
	go s.moveIntoGroup()
	return nil
}

func (s *session) emitStart() {
	st := &s.record.Start
	s.denials.Emit(event.Event{
		Kind: event.SessionStart, Mechanism: "bpf", Degraded: st.Degraded, Removed: st.Removed,
		Process: []event.Process{{PID: s.client.PID, UID: s.uid, Argv: st.Argv}},
	})
}

// startReporting starts to report denials, unless the session is ending.
func (s *session) startReporting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != api.Starting {
		return false
	}
	s.state = api.Running
	s.followDenials(false)
	return true
}
