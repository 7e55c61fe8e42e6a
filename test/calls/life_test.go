//go:build linux

package calls

import (
	"fmt"
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// A call that a rule allows runs, one that none allows is denied. Both have their events.
func TestLife(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		s := p.start(t, "[authorities.global]\ndeny = [\"hidden\"]\n")
		runs(t, submit(t, s.inside, bash("1", "ls")))
		runs(t, submit(t, s.outside, bash("2", "ls")))
		s.denied(t, submit(t, s.inside, call{"id": "3", "tool": "hidden", "arguments": call{}}), "not_visible")
		s.denied(t, submit(t, s.inside, bash("4", "cat /etc/shadow")), "outside_workspace")
		end(t, s.inside, "1", `{"result":"x","duration_ms":7}`)
		s.event(t, "tool_call", "call=1", "end=ok", "duration_ms=7")
		end(t, s.outside, "2", `{"error":"x"}`)
		s.event(t, "tool_call", "call=2", "end=error")
		fails(t, s.inside, 404, "POST", message.Calls+"/1"+message.Result, `{"result":1}`)
		fails(t, s.inside, 409, "POST", message.Calls+"/3"+message.Result, `{"result":1}`)
		fails(t, s.inside, 404, "GET", message.Calls+"/5", nil)
		for _, body := range []string{`{}`, `{"result":1,"error":1}`, `[]`, `{"result":1,"more":1}`, `{"result":1,"result":1}`, `"result"`} {
			fails(t, s.inside, 400, "POST", message.Calls+"/2"+message.Result, body)
		}
		if n := len(s.find(t, "tool_call")); n != 2 {
			t.Errorf("%d calls have ended: %s", n, s.list(t))
		}
	})
}

// What is no call is an error, and no event claims that it was one.
func TestNoCalls(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, "[gate]\nshell = \"bash\"\n")
	for _, body := range []string{
		`[]`, `null`, `{}`, `{"id":"1"}`, `{"id":"1","tool":"Bash"}`, `{"id":"1","tool":"Bash","arguments":[]}`, `{"id":"1","tool":"Bash","arguments":{},"more":1}`,
		`{"id":"1","id":"2","tool":"Bash","arguments":{}}`, `{"id":"1","ID":"2","tool":"Bash","arguments":{}}`, `{"id":"1","tool":"Bash","arguments":{},"wait_ms":-1}`,
		`{"id":"1","tool":"Bash","arguments":{},"wait_ms":"1"}`, `{"id":"1","tool":"Bash","arguments":{},"wait_ms":1e99}`, `{"id":"1","result":1,"invocation":"i"}`,
	} {
		fails(t, s.outside, 400, "POST", message.Calls, body)
	}
	for _, body := range []string{"", "{", "null", `{"id":"1","tool":"Bash","arguments":{}} {}`, "\xff"} {
		text := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", message.Calls, len(body), body)
		if r := s.outside.do(t, order{Trick: "raw", Text: text}); r.Status != 400 {
			t.Errorf("%q: %+v", body, r)
		}
	}
	runs(t, submit(t, s.outside, bash("1", "ls"))) // the id is free
	if kinds := s.kinds(t); slices.Contains(kinds, "tool_denied") {
		t.Errorf("%q", kinds)
	}
}
