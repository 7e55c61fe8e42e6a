package calls

import (
	"crypto/rand"
	"testing"

	"github.com/toolguard/toolguard/internal/calls/serve"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// A confined process reaches its own session's calls and approvals alone. On the socket outside nothing shows in which session it is.
func TestConfinedPeers(t *testing.T) {
	rejected := 0
	s := New(Config{
		Session: "one", Approvals: approval.New(approval.RealClock(), rand.Reader),
		Record: &Recorder{Emit: func(event.Event) { rejected++ }},
	})
	for _, x := range []struct {
		peer   serve.Peer
		status int
	}{
		{serve.Peer{UID: 7}, 200},
		{serve.Peer{Confined: true, Session: "one"}, 200},
		{serve.Peer{Confined: true, Session: "two"}, 403},
		{serve.Peer{Confined: true, UID: 7, PID: 8}, 403},
	} {
		status, body := s.Serve(t.Context(), &serve.Request{Method: "GET", Path: message.Approvals, Peer: x.peer})
		if status != x.status {
			t.Errorf("%+v: %d %v", x.peer, status, body)
		}
	}
	if rejected != 2 {
		t.Errorf("%d events", rejected)
	}
}
