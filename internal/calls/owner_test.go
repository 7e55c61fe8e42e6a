package calls

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/calls/serve"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/approval"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// noHooks are those of a policy without any.
type noHooks struct{}

func (noHooks) Before(context.Context, *gate.Call, string, func(json.RawMessage) error) tool.HookResult {
	return tool.HookResult{}
}
func (noHooks) After(*gate.Call, string, *message.End) {}
func (noHooks) Close()                                 {}

// A process of the session neither reads nor ends a call of a host outside; that one can with a call of the session's.
func TestCallsOfOthers(t *testing.T) {
	for _, x := range []struct {
		of, by bool // confined
		status int
	}{
		{of: false, by: true, status: 404},
		{of: false, by: false, status: 200},
		{of: true, by: true, status: 200},
		{of: true, by: false, status: 200},
	} {
		for _, r := range []serve.Request{
			{Method: "GET", Path: message.Calls + "/x"},
			{Method: "POST", Path: message.Calls + "/x" + message.Result, Body: []byte(`{"result":1}`)},
			{Method: "POST", Path: message.Calls + "/x" + message.Cancel, Body: []byte(`{}`)},
		} {
			s := New(Config{
				Session: "one", Engine: &tool.Engine{}, Hooks: noHooks{}, Approvals: approval.New(approval.RealClock(), rand.Reader),
				Record: &Recorder{Emit: func(event.Event) {}},
			})
			l := &call{
				life: tool.NewLife(&gate.Call{ID: "x", Arguments: json.RawMessage(`{}`)}), submitted: "d", confined: x.of, cancel: func() {},
				changed: make(chan struct{}), decided: time.Now(),
			}
			l.life.Step, l.life.Answer = tool.Running, &gate.Answer{}
			s.open["x"] = l
			if x.by {
				r.Peer = serve.Peer{Confined: true, Session: "one"}
			}
			if _, err := s.begin(l.life.Call, "d", x.by); (err == nil) != (x.of == x.by) {
				t.Errorf("submitted by %v, again by %v: %v", x.of, x.by, err)
			}
			status, body := s.Serve(t.Context(), &r)
			if status != x.status {
				t.Errorf("submitted by %v, %s %s by %v: %d %v", x.of, r.Method, r.Path, x.by, status, body)
			}
			if left := s.open["x"] == l; left != (x.status == 404 || r.Method == "GET") {
				t.Errorf("submitted by %v, %s %s by %v: it's open: %v", x.of, r.Method, r.Path, x.by, left)
			}
		}
	}
}

// What is known of a denied call for a while has none of its texts.
func TestDeniedCallsAreSmall(t *testing.T) {
	s := New(Config{Session: "one", Record: &Recorder{Emit: func(event.Event) {}}})
	c := &gate.Call{ID: "x", Cwd: "/some/folder", Arguments: json.RawMessage(`{"text":"long"}`)}
	l := &call{life: tool.NewLife(c), cancel: func() {}, changed: make(chan struct{}), size: size(c)}
	l.life.Judged(gate.Denied(c, "no_rule", nil, ""))
	s.open["x"], s.kept[0] = l, size(c)
	s.decided(l)
	if got := size(l.life.Call); got != 1 || s.kept[0] != 0 || s.open["x"] != l {
		t.Errorf("%d bytes are left, of which %d are counted", got, s.kept)
	}
	// A process of the session can't replace it: who submitted it would read the answer to another call.
	if _, err := s.begin(&gate.Call{ID: "x"}, "other", true); err == nil || s.open["x"] != l {
		t.Errorf("another call with its id: %v", err)
	}
	if size(c) != len("x/some/folder")+len(c.Arguments) {
		t.Errorf("a call has %d bytes", size(c))
	}
}
