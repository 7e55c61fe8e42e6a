//go:build linux

package calls

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// A process of the session decides nothing, whatever it says and wherever it is by now. Each attempt is an event.
func TestConfinedDecides(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		s := p.start(t, asking)
		id := waits(t, submit(t, s.inside, bash("1", "id")))
		for i, body := range []string{`{"decision":"allow-once"}`, `{"decision":"allow-always"}`, `{"decision":"deny"}`, `{"decision":"allow-once","via":"terminal"}`, `{}`} {
			fails(t, s.inside, 403, "POST", message.Approvals+"/"+id, body)
			if n := s.count(t, i+1, "tool_denied", "reason=request_rejected", "status=403"); n != i+1 {
				t.Errorf("%d events of %d attempts: %s", n, i+1, s.list(t))
			}
		}
		fails(t, s.inside, 403, "POST", message.Approvals+"/nothing", `{"decision":"allow-once"}`)
		r := s.inside.do(t, order{Trick: "detached", Method: "POST", Path: message.Approvals + "/" + id, Body: json.RawMessage(`{"decision":"allow-once"}`)})
		if r.Status != 403 {
			t.Errorf("a detached process: %+v", r)
		}
		if st := after(t, s.inside, "1", 0); st.State != message.Waiting {
			t.Errorf("%s", show(st))
		}
		decided(t, s, id, message.AllowOnce) // control: a process outside
		runs(t, after(t, s.inside, "1", time.Minute))
	})
}

// count waits until there are n events of a kind with these facts, and returns how many there are.
func (s *session) count(t *testing.T, n int, kind string, facts ...string) int {
	t.Helper()
	eventually(func() bool { return len(s.find(t, kind, facts...)) >= n })
	return len(s.find(t, kind, facts...))
}

// A process of the session neither sees nor reads the approvals of others, doesn't speak for others, and doesn't take their ids.
func TestConfinedAsks(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking+"[tools.owners]\nowner_only = true\n", "--agent", "coder")
	others := waits(t, submit(t, s.outside, bash("outside", "id").with("agent", "other")))
	own := waits(t, submit(t, s.inside, bash("inside", "id")))
	if got := approvals(t, s.inside); len(got) != 1 || got[0].ID != own || got[0].Agent != "coder" {
		t.Errorf("it sees %s", show(got))
	}
	if got := approvals(t, s.outside); len(got) != 2 {
		t.Errorf("control: a process outside sees %s", show(got))
	}
	fails(t, s.inside, 404, "GET", message.Approvals+"/"+others+message.Decision, nil)
	if list := get[message.List](t, s.inside, "GET", message.Approvals+"?since=0", nil); len(list.Approvals) != 1 {
		t.Errorf("it watches %s", show(list))
	}
	// The calls: a result that it reports could be what another call waits for.
	runs(t, submit(t, s.outside, bash("runs", "ls")))
	for _, path := range []string{"/outside", "/runs"} {
		fails(t, s.inside, 404, "GET", message.Calls+path, nil)
		fails(t, s.inside, 404, "POST", message.Calls+path+message.Result, `{"result":1}`)
		fails(t, s.inside, 404, "POST", message.Calls+path+message.Cancel, nil)
	}
	end(t, s.outside, "runs", `{"result":1}`)
	after(t, s.outside, "inside", 0) // control: processes outside see all
	// The ids.
	fails(t, s.inside, 409, "POST", message.Calls, bash("outside", "id").with("agent", "coder"))
	fails(t, s.inside, 409, "POST", message.Calls, bash("inside", "ls"))
	fails(t, s.inside, 409, "POST", message.Approvals, message.Grant{ID: others, Resource: "fs", Action: "read", Target: "/srv/x"})
	if n := s.count(t, 3, "tool_denied", "reason=request_rejected", "status=409"); n != 3 {
		t.Errorf("%d events: %s", n, s.list(t))
	}
	// The caller.
	fails(t, s.inside, 403, "POST", message.Calls, bash("other", "ls").with("agent", "other"))
	fails(t, s.inside, 403, "POST", message.Calls, call{"id": "owner", "tool": "owners", "arguments": call{}, "owner": true})
	if n := s.count(t, 2, "tool_denied", "reason=request_rejected", "status=403"); n != 2 {
		t.Errorf("%d events: %s", n, s.list(t))
	}
	s.denied(t, submit(t, s.inside, call{"id": "owners", "tool": "owners", "arguments": call{}}), "owner_only")
	runs(t, submit(t, s.outside, call{"id": "owner", "tool": "owners", "arguments": call{}, "owner": true})) // control
	runs(t, submit(t, s.inside, bash("own", "ls").with("agent", "coder")))
}

// A process of a session without an agent names none, whose approvals could be looser.
func TestConfinedAgent(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking+"[approvals.agents.trusted]\nsecurity = \"full\"\nask = \"off\"\n")
	waits(t, submit(t, s.inside, bash("1", "id")))
	runs(t, submit(t, s.outside, bash("2", "id").with("agent", "trusted"))) // control
	fails(t, s.inside, 403, "POST", message.Calls, bash("3", "id").with("agent", "trusted"))
	s.event(t, "tool_denied", "reason=request_rejected", "status=403")
}

// A flood of calls ends at its limit, and others are served.
func TestFlood(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking)
	o := request("POST", message.Calls, bash("f@", "ls"))
	o.Trick, o.Count = "flood", 300
	if got := *read[map[string]int](t, s.inside.do(t, o)); got["200"] != 256 || got["429"] != 44 {
		t.Errorf("calls: %v", got)
	}
	runs(t, submit(t, s.outside, bash("outside", "ls")))
	ended := 0
	for i := range 300 {
		if s.inside.do(t, request("POST", message.Calls+"/f"+fmt.Sprint(i)+message.Result, `{"result":1}`)).Status == 200 {
			ended++
		}
	}
	if ended != 256 {
		t.Errorf("%d calls were open", ended)
	}
	runs(t, submit(t, s.inside, bash("again", "ls")))
	o = request("POST", message.Calls, bash("a@", "id @"))
	o.Trick, o.Count = "flood", 100
	got := *read[map[string]int](t, s.inside.do(t, o))
	waiting := len(approvals(t, s.outside))
	if waiting != 64 {
		t.Errorf("%d approvals wait: %v", waiting, got)
	}
	id := waits(t, submit(t, s.outside, bash("asks", "id")))
	decided(t, s, id, message.AllowOnce)
	runs(t, after(t, s.outside, "asks", time.Minute))
	o = request("POST", message.Approvals, message.Grant{ID: "g@", Resource: "fs", Action: "read", Target: "/srv/x@"})
	o.Trick, o.Count = "flood", 10
	if got := *read[map[string]int](t, s.inside.do(t, o)); got["429"] != 10 {
		t.Errorf("grants: %v", got)
	}
}

// Requests that are too large, and what is no request.
func TestBadRequests(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking+"[tools.asked]\nask = \"always\"\n")
	head := "POST " + message.Calls + " HTTP/1.1\r\nHost: x\r\n"
	begin := `{"id":"1","tool":"Bash","arguments":{"command":"ls"}}`
	for _, row := range []struct {
		name, text string
		blanks     int
		status     int
	}{
		{"fine", head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(begin), begin), 0, 200},
		{"large", head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 8<<20, begin), 8<<20 - len(begin), 200}, // it's the same call
		{"too large", head + fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 64<<20, begin), 64<<20 - len(begin), 413},
		{"no length", head + "\r\n" + begin, 0, 400},
		{"chunked", head + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 0, 411},
		{"negative", head + "Content-Length: -1\r\n\r\n" + begin, 0, 400},
		{"two lengths", head + fmt.Sprintf("Content-Length: %d\r\nContent-Length: 1\r\n\r\n%s", len(begin), begin), 0, 400},
		{"no HTTP", "hello\r\n\r\n", 0, 400},
		{"not UTF-8", head + "Content-Length: 3\r\n\r\n\"\xff\"", 0, 400},
		{"nothing", head + "Content-Length: 0\r\n\r\n", 0, 400},
		{"elsewhere", "GET /v1/sessions HTTP/1.1\r\nHost: x\r\n\r\n", 0, 404},
		{"another method", "DELETE " + message.Approvals + " HTTP/1.1\r\nHost: x\r\n\r\n", 0, 404},
		{"a wait that is none", "GET " + message.Approvals + "?since=0&wait_ms=x HTTP/1.1\r\nHost: x\r\n\r\n", 0, 400},
		{"a long head", "GET /" + strings.Repeat("x", 20<<10) + " HTTP/1.1\r\n\r\n", 0, 431},
	} {
		for who, a := range map[string]*agent{"inside": s.inside, "outside": s.outside} {
			text := strings.Replace(row.text, `"id":"1"`, fmt.Sprintf(`"id":"%c"`, who[0]), 1) // as long
			if r := a.do(t, order{Trick: "raw", Text: text, Count: row.blanks}); r.Status != row.status {
				t.Errorf("%s, %s: %d %s %s, want %d", row.name, who, r.Status, r.Body, r.Err, row.status)
			}
		}
	}
	// Long arguments: those of the calls that wait are bounded.
	long := func(i int) call {
		return call{"id": fmt.Sprint("long ", i), "tool": "asked", "arguments": call{"x": strings.Repeat("x", 7<<20)}}
	}
	var n int
	for n = range 20 {
		r := s.inside.do(t, request("POST", message.Calls, long(n)))
		if r.Status == 429 {
			break
		}
		waits(t, read[message.State](t, r))
	}
	if n != 9 {
		t.Errorf("%d calls of 7 MiB are kept", n)
	}
	if r := s.outside.do(t, request("POST", message.Calls, long(100))); r.Status != 200 {
		t.Errorf("outside: %+v", r)
	}
	if a := approvals(t, s.outside); len(a) != 10 || len(a) > 0 && len(a[0].Arguments) > 64<<10 {
		t.Errorf("%d approvals wait, or one has long arguments", len(a))
	}
}

// Connections that send nothing, or slowly, and thousands of them, don't keep others from being served; when they are closed, the session is
// served again, too.
func TestConnections(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking)
	for _, row := range []struct {
		name, text string
		count      int
	}{
		{"silent", "", 100}, {"slow", "POST /v1/calls HT", 100}, {"slow body", "POST /v1/calls HTTP/1.1\r\nContent-Length: 8000000\r\n\r\n{", 100}, {"thousands", "G", 10000},
	} {
		n := *read[int](t, s.inside.do(t, order{Trick: "connect", Text: row.text, Count: row.count}))
		if n < 64 {
			t.Errorf("%s: only %d connections", row.name, n)
		}
		id := "outside " + row.name
		approval := waits(t, submit(t, s.outside, bash(id, "id")))
		decided(t, s, approval, message.AllowOnce)
		runs(t, after(t, s.outside, id, time.Minute))
		t.Logf("%s: %d connections", row.name, n)
		read[any](t, s.inside.do(t, order{Trick: "disconnect"}))
		runs(t, submit(t, s.inside, bash("inside "+row.name, "ls")))
	}
	sent := *read[int](t, s.inside.do(t, order{Trick: "messages", Count: 50}))
	if sent < 100 {
		t.Errorf("only %d messages were sent", sent)
	}
	runs(t, submit(t, s.inside, bash("after messages", "ls")))
	runs(t, submit(t, s.outside, bash("outside after messages", "ls")))
}

// The socket outside gives a confined process nothing: one of the session, of another one, or any with no_new_privs. Where the file system isn't
// restricted, a process of a session can connect to it.
func TestOutsideSocket(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		s := p.start(t, asking)
		id := waits(t, submit(t, s.inside, bash("1", "id")))
		mine := waits(t, submit(t, s.outside, bash("2", "id")))
		p.write(t, "policy/p.toml", "version = 1\naccess.default = { fs = \"allow\", net = \"allow\", commands = \"allow\" }\n[approvals]\ntimeout = \"10m\"\n")
		other := p.again(t)
		nnp := p.startAgent(t, p.command(needs(t, "setpriv"), "--no-new-privs", self, agentArg), s.socket)
		for name, a := range map[string]struct {
			*agent
			trick   string
			connect bool
		}{
			"of the session": {s.inside, "", false}, "detached": {s.inside, "detached", false}, "of another session": {other.inside, "", false},
			"detached, of another session": {other.inside, "detached", false}, "no_new_privs": {nnp, "", true},
		} {
			for _, o := range []order{
				request("POST", message.Approvals+"/"+id, `{"decision":"allow-once"}`), request("POST", message.Approvals+"/"+mine, `{"decision":"deny"}`),
				request("GET", message.Approvals, nil), request("GET", message.Approvals+"/"+id+message.Decision, nil), request("POST", message.Calls, bash("3", "ls")),
				request("GET", message.Calls+"/2", nil), request("POST", message.Calls+"/2"+message.Cancel, `{}`),
			} {
				o.Address, o.Trick = s.socket, a.trick
				r := a.do(t, o)
				if r.Status != 403 && (r.Status != 0 || a.connect) {
					t.Errorf("%s: %s %s: %d %s %s", name, o.Method, o.Path, r.Status, r.Body, r.Err)
				}
			}
		}
		if got := approvals(t, s.outside); len(got) != 2 { // control
			t.Errorf("%s", show(got))
		}
		decided(t, s, id, message.AllowOnce)
		runs(t, after(t, s.inside, "1", time.Minute))
	})
}

// Another user can't use the socket, root can.
func TestOtherUsers(t *testing.T) {
	if len(users()) < 2 {
		t.Skip("needs root")
	}
	ofRoot, ofUser := newFixture(t, users()[0]), newFixture(t, users()[1])
	s := ofRoot.start(t, asking)
	id := waits(t, submit(t, s.inside, bash("1", "id")))
	if r := ofUser.person(t, s.socket).do(t, request("POST", message.Approvals+"/"+id, `{"decision":"allow-once"}`)); r.Status == 200 {
		t.Errorf("an ordinary user decides about root's session: %+v", r)
	}
	s = ofUser.start(t, asking)
	id = waits(t, submit(t, s.inside, bash("1", "id")))
	root := ofRoot.person(t, s.socket)
	if r := decide(t, root, id, message.AllowOnce); r.Status != 200 {
		t.Errorf("root: %+v", r)
	}
	if e := s.event(t, "approval", "what=decided"); e.Actor.Process.User.UID != "0" || e.Actor.Process.PID != root.pid {
		t.Errorf("%s", e.text)
	}
	runs(t, after(t, s.inside, "1", time.Minute))
}

// Targets that look alike are different in the rule that a person sees, and what would hide or change the text is escaped.
func TestLookAlikes(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking)
	seen := map[string]string{}
	for i, target := range []string{
		"/srv/data", "/srv/d\u0430ta", "/srv/data ", "/srv/data\u00a0", "/srv/da\u200bta", "/srv/\u202eatad", "/srv/data\t", "/srv/data\x1b[2K", "/srv/data\r/srv/x", "/srv/data\nallow",
		"/srv/dat\u0061\u0301", "/srv/dat\u00e1", "/srv/data\u2028x", "/srv/data\"x", "/srv/data'x", "/srv/data\\x", "/srv/data\x7f",
	} {
		r := s.inside.do(t, request("POST", message.Approvals, message.Grant{ID: fmt.Sprint(i), Resource: "fs", Action: "read", Target: target}))
		if r.Status != 200 {
			if r.Status != 403 && r.Status != 400 || i == 0 {
				t.Errorf("%q: %+v", target, r)
			}
			continue
		}
		rule := read[message.Approval](t, r).Rule
		if before, ok := seen[rule]; ok {
			t.Errorf("%q and %q have one rule: %s", before, target, rule)
		}
		seen[rule] = target
		if slices.ContainsFunc([]rune(rule), isHidden) {
			t.Errorf("%q: the rule has hidden characters: %q", target, rule)
		}
	}
	if len(seen) < 5 {
		t.Errorf("only %d rules", len(seen))
	}
}

// isHidden reports whether a character changes how others are shown, or isn't visible.
func isHidden(r rune) bool {
	return r < ' ' && r != '\n' || r >= 0x7f && r <= 0xa0 || r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff
}
