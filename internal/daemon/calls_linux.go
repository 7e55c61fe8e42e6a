package daemon

import (
	"net/http"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/daemon/forward"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// serveCalls takes over a connection that the session's toolguard has opened for the requests that are forwarded to it.
func (d *Daemon) serveCalls(r *request, s *session) (any, error) {
	if s.calls.IsFull() {
		return nil, reject(429, "session %s has the most connections already that may wait for a request", s.id)
	}
	hijacked, _, err := http.NewResponseController(r.w).Hijack()
	if err != nil {
		return nil, err
	}
	c := hijacked.(*peer.Conn)
	c.Detach() // the session's connections are bounded themselves, and its user needs the quota for other ones
	if write(c, []byte("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")) != nil {
		return nil, c.Close()
	}
	_ = c.SetDeadline(time.Time{})
	s.calls.Add(c)
	return nil, nil
}

// callEvent records what the session's toolguard reports of its calls. It decides about them as the user, so its word is enough for that, and
// for nothing else: the session that an event is about, its policy and its owner are toolguardd's to say.
func callEvent(r *request, s *session) (any, error) {
	var body api.CallEvent
	if err := r.read(&body); err != nil {
		return nil, err
	}
	if body.Event == nil || !body.Event.Kind.IsAboutCall() {
		return nil, reject(400, "only events about calls, approvals and grants can be reported")
	}
	if state := s.currentState(); s.denials == nil || state == api.Starting {
		return nil, reject(409, "session %s is %s", s.id, state)
	}
	from := body.Event
	s.denials.Emit(event.Event{
		Time: from.Time, Kind: from.Kind, Authority: from.Authority, Rule: from.Rule, Place: from.Place, Reason: from.Reason, Suggest: from.Suggest,
		Resource: from.Resource, Capability: from.Capability, Target: from.Target, Asked: from.Asked, Process: from.Process, Extra: from.Extra,
	})
	return nil, nil
}

// forward forwards a request to the session that it is for.
func (d *Daemon) forward(r *request) (any, error) {
	confined, err := d.isConfined(r.peer)
	if err != nil {
		return nil, err
	}
	if confined && r.Pattern == "POST "+message.Approvals+"/{id}" {
		return nil, d.rejectDecision(r)
	}
	if ask := r.URL.Query(); !confined && r.Pattern == "GET "+message.Approvals && !ask.Has("session") && !ask.Has("since") { // versions are one session's
		return d.forwarder.Approvals(r.Request, r.peer, d.serving(r.peer.UID), d.log), nil
	}
	s, err := d.callSession(r, confined)
	if err != nil {
		return nil, err
	}
	return nil, d.forwarder.Forward(r.w, r.Request, r.peer, confined, s)
}

// rejectDecision rejects a decision by a confined client, and records that it was tried.
func (d *Daemon) rejectDecision(r *request) error {
	const why = "a confined process may not decide about approvals: a person does, outside of the session ('toolguard approvals')"
	if s, err := d.session(r.peer.Session); err == nil && s.denials != nil && s.currentState() != api.Starting {
		s.denials.Emit(event.RequestRejected(r.Method+" "+r.URL.Path, 403, why, event.Process{PID: r.peer.PID(), UID: r.peer.UID, Exe: r.peer.Exe()}))
	}
	return reject(403, "%s", why)
}

// isConfined reports whether the client is in any session, also in one that toolguardd didn't make.
func (d *Daemon) isConfined(p *peer.Peer) (bool, error) {
	if p.Session != 0 || d.denials.confines(p.PID()) {
		return true, nil
	}
	confined, err := p.NoNewPrivs()
	if err != nil {
		return true, reject(403, "it can't be decided whether the client is in a session: %v", err)
	}
	return confined, nil
}

// callSession is the session that a request about calls or approvals is for.
func (d *Daemon) callSession(r *request, confined bool) (*forward.Session, error) {
	if confined {
		s, err := d.session(r.peer.Session)
		if r.peer.Session == 0 || err != nil {
			return nil, reject(404, "the client is in a session that toolguardd didn't make: TOOLGUARD_SOCKET is where its calls are answered, if they are")
		}
		return s.forwarding(), nil
	}
	if id := r.URL.Query().Get("session"); id != "" {
		r.SetPathValue("id", id)
		s, err := d.sessionFor(r, unconfined)
		if err != nil {
			return nil, err
		}
		return s.forwarding(), nil
	}
	return forward.Only(d.serving(r.peer.UID))
}

// serving are the sessions that a user may ask and whose toolguards serve calls.
func (d *Daemon) serving(uid int) (list []*forward.Session) {
	for _, s := range d.all(uid) {
		if !s.isOver() && s.calls.IsServed() {
			list = append(list, s.forwarding())
		}
	}
	return list
}

func (s *session) forwarding() *forward.Session {
	return &forward.Session{ID: s.id, Conns: &s.calls, Over: s.over}
}
