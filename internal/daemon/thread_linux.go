package daemon

import (
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
)

// enter has the kernel put a thread of the client's into the session at the next thing that it does.
func (s *session) enter(thread int) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.now() != api.Starting || s.record.Thread != 0 {
		return refuse(409, "a thread has entered this session already")
	}
	if err := s.holds(); err != nil {
		return err
	}
	if err := peer.RequireNoNewPrivs(s.client.PID, thread); err != nil { // the programs leave it out, too, but can't say why
		return err
	}
	if err := s.change(func(r *record) { r.Thread = thread }); err != nil {
		return err
	}
	if err := s.kernel.ExpectThread(s.thread(), s.from); err != nil {
		return err
	}
	s.expect()
	return nil
}

// holds makes sure that the session is within the one around it still.
func (s *session) holds() error {
	if s.from == 0 { // its policies needn't be read
		return nil
	}
	p, err := s.policies()
	if err != nil {
		return err
	}
	return s.d.holds(s.from, p.inForce)
}

// thread is the one that enters the session.
func (s *session) thread() loader.Thread {
	return loader.Thread{Process: s.client.PID, ID: s.record.Thread}
}

// entering bounds how long a session may be without its toolguard saying that the thread is in: nobody hears of it until then, and
// the programs look for the thread with all that happens on the machine.
const entering = 10 * time.Second

// expect ends the session unless its toolguard says soon that the thread is in.
func (s *session) expect() {
	time.AfterFunc(entering, func() {
		s.changing.Lock()
		defer s.changing.Unlock()
		if s.now() == api.Starting {
			s.d.log("session %s is ended: process %d had a thread put into it and didn't go on", s.id, s.client.PID)
			s.stop()
		}
	})
}

// adopted makes sure that the thread is in, and begins to hear of the session.
func (s *session) adopted() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.now() != api.Starting || s.record.Thread == 0 {
		return refuse(409, "no thread is about to enter this session")
	}
	if err := s.kernel.ConfirmThread(s.thread()); err != nil {
		return err
	}
	if s.kernel.Counts().Living <= 0 {
		return refuse(409, "the thread isn't in the session: it hasn't done anything since")
	}
	if err := s.change(func(r *record) { r.Info.State = api.Running }); err != nil {
		return err
	}
	if !s.begun() {
		return refuse(409, "session %s is being ended", s.id)
	}
	s.tellStart()
	go s.alongside()
	return nil
}

func (s *session) tellStart() {
	st := &s.record.Start
	s.denials.Emit(event.Event{
		Kind: event.SessionStart, Mechanism: "bpf", Degraded: st.Degraded, Removed: st.Removed,
		Process: []event.Process{{PID: s.client.PID, UID: s.uid, Argv: st.Argv}},
	})
}

// begun begins to hear of the session, unless it's being ended.
func (s *session) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != api.Starting {
		return false
	}
	s.state = api.Running
	s.follow(false)
	return true
}
