//go:build linux

package calls

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// asking is a policy that lists ls, and asks about other commands.
const asking = `
commands.ls = {}
[approvals]
timeout = "10m"
[gate]
shell = "bash"
`

// A person is asked about what isn't listed, and the decision is the end of it: for the call, its waiters, and in the events.
func TestApprovals(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		p.write(t, "a.txt", "a")
		s := p.start(t, asking, "--agent", "coder")
		runs(t, submit(t, s.inside, bash("listed", "ls")))

		id := waits(t, submit(t, s.inside, bash("1", "cat a.txt").with("agent", "coder")))
		a := approval(t, s.outside, id)
		if a.Tool != "Bash" || a.Agent != "coder" || string(a.Arguments) != `{"command":"cat a.txt"}` || a.Reason == "" || a.Risk != "high" || a.Decision != nil || a.Resolved != 0 ||
			a.Expires-a.Created != (10*time.Minute).Milliseconds() || !slices.Contains(a.Offers, message.Deny) || !slices.Contains(a.Offers, message.AllowOnce) {
			t.Errorf("%s", show(a))
		}
		s.event(t, "approval", "what=requested", "approval="+id, "call=1")
		if got := approvals(t, s.inside); len(got) != 1 || got[0].ID != id {
			t.Errorf("its requester sees %s", show(got))
		}
		fails(t, s.outside, 409, "POST", message.Calls+"/1"+message.Result, `{"result":1}`) // it doesn't run
		waiter := s.inside.begin(request("GET", message.Calls+"/1?wait_ms=600000", nil))
		for body, status := range map[string]int{`{}`: 400, `{"decision":null}`: 400, `{"decision":"allow"}`: 400, `{"decision":"deny","by":1}`: 400, `[]`: 400} {
			fails(t, s.outside, status, "POST", message.Approvals+"/"+id, body)
		}
		fails(t, s.outside, 404, "POST", message.Approvals+"/nothing", `{"decision":"deny"}`)
		get[message.Decided](t, s.outside, "POST", message.Approvals+"/"+id, `{"decision":"deny"}`)
		s.denied(t, read[message.State](t, s.inside.wait(t, waiter)), "approval_denied")
		if st := after(t, s.inside, "1", 0); !strings.Contains(st.Answer.Message, fmt.Sprintf("a person denied it (user %d, api)", p.user.ID)) {
			t.Errorf("the answer doesn't show who denied it: %s", show(st.Answer))
		}
		e := s.event(t, "approval", "what=decided", "decision=deny", "approval="+id, "call=1", "via=api")
		if by := e.Actor.Process; by.User.UID != fmt.Sprint(p.user.ID) || by.PID != s.outside.pid || by.File.Path != self {
			t.Errorf("the event doesn't show who decided: %+v: %s", by, e.text)
		}
		for _, d := range []string{message.Deny, message.AllowOnce} {
			if r := decide(t, s.outside, id, d); r.Status != 409 {
				t.Errorf("a second decision: %+v", r)
			}
		}
		s.event(t, "tool_denied", "reason=request_rejected", "status=409")
		if d := decision(t, s.inside, id, 0); d.Decision == nil || *d.Decision != message.Deny || d.Pending {
			t.Errorf("a late waiter gets %s", show(d))
		}

		id = waits(t, submit(t, s.inside, bash("2", "cat a.txt")))
		waiter = s.inside.begin(request("GET", message.Calls+"/2?wait_ms=600000", nil))
		decided(t, s, id, message.AllowOnce)
		runs(t, read[message.State](t, s.inside.wait(t, waiter)))
		end(t, s.inside, "2", `{"result":1}`)
		s.event(t, "tool_call", "call=2", "end=ok", "approved=true")
		waits(t, submit(t, s.inside, bash("3", "cat a.txt"))) // once
		if _, err := os.Stat(s.state("approvals.json")); err == nil {
			t.Error("what is allowed once is stored")
		}
	})
}

// decided has a person decide, who must succeed.
func decided(t *testing.T, s *session, id, d string) {
	t.Helper()
	if r := decide(t, s.outside, id, d); r.Status != 200 {
		t.Fatalf("decide %s: %+v", d, r)
	}
	s.event(t, "approval", "what=decided", "decision="+d, "approval="+id)
}

// Of two people who decide at once, one does.
func TestTwoPeople(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking)
	other := p.person(t, s.socket)
	for i := range 20 {
		call := fmt.Sprint(i)
		id := waits(t, submit(t, s.inside, bash(call, "id")))
		waiter := s.inside.begin(request("GET", message.Calls+"/"+call+"?wait_ms=600000", nil))
		path := message.Approvals + "/" + id
		a := s.outside.begin(request("POST", path, `{"decision":"allow-once"}`))
		b := other.begin(request("POST", path, `{"decision":"deny"}`))
		first, second := s.outside.wait(t, a), other.wait(t, b)
		st := read[message.State](t, s.inside.wait(t, waiter))
		switch {
		case first.Status == 200 && second.Status == 409 && st.State == message.Running:
		case first.Status == 409 && second.Status == 200 && st.State == message.Denied:
		default:
			t.Fatalf("%+v, %+v, %s", first, second, show(st))
		}
		s.event(t, "approval", "what=decided", "approval="+id)
	}
	if n := len(s.find(t, "approval", "what=decided")); n != 20 {
		t.Errorf("%d decisions: %s", n, s.list(t))
	}
}

// Without a decision in time it's null, and the call is denied. Nobody hangs, also not those who ask late; later still, it's unknown.
func TestNobodyAnswers(t *testing.T) {
	t.Parallel()
	p := newFixture(t, ordinary())
	s := p.start(t, strings.Replace(asking, "10m", "1s", 1))
	began := time.Now()
	first := s.inside.begin(request("POST", message.Calls, bash("1", "id").with("wait_ms", 600000)))
	id := s.event(t, "approval", "what=requested", "call=1").Unmapped.Extra["approval"]
	waiter := s.inside.begin(request("GET", message.Approvals+"/"+id+message.Decision+"?wait_ms=600000", nil))
	s.denied(t, read[message.State](t, s.inside.wait(t, first)), "approval_timeout")
	if d := read[message.Decided](t, s.inside.wait(t, waiter)); d.Decision != nil || d.Pending {
		t.Errorf("the decision is %s", show(d))
	}
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("a second has passed after %s", took)
	}
	s.event(t, "approval", "what=expired", "approval="+id)
	if r := s.outside.do(t, request("GET", message.Approvals+"/"+id+message.Decision, nil)); r.Status != 200 || !strings.Contains(string(r.Body), `"decision":null`) {
		t.Errorf("a late waiter gets %+v: %s", r, r.Body)
	}
	if r := decide(t, s.outside, id, message.AllowOnce); r.Status != 404 {
		t.Errorf("a late decision: %+v", r)
	}
	// Those who come within 15 seconds learn it, and then it's unknown.
	if !eventually(func() bool {
		r := s.outside.do(t, request("GET", message.Approvals+"/"+id+message.Decision, nil))
		return r.Status == 404
	}) {
		t.Error("the approval is known for good")
	}
	if took := time.Since(began); took < 15*time.Second {
		t.Errorf("it's unknown after %s", took)
	}
	if !eventually(func() bool { return s.outside.do(t, request("GET", message.Calls+"/1", nil)).Status == 404 }) {
		t.Error("the call is known for good")
	}
}

// If nobody answers, ask_fallback decides, and never more than security allows.
func TestFallback(t *testing.T) {
	for _, row := range []struct{ more, state string }{
		{"", message.Denied},
		{`ask_fallback = "deny"`, message.Denied},
		{`ask_fallback = "full"`, message.Denied}, // security is allowlist
		{"ask_fallback = \"full\"\nsecurity = \"full\"\nask = \"always\"", message.Running},
	} {
		s := newFixture(t, ordinary()).start(t, "commands.ls = {}\n[approvals]\ntimeout = \"1s\"\n"+row.more+"\n[gate]\nshell = \"bash\"\n")
		st := submit(t, s.inside, bash("1", "id").with("wait_ms", 60000))
		if st.State != row.state {
			t.Errorf("%s: %s", row.more, show(st))
		}
		s.event(t, "approval", "what=expired", "call=1")
		if row.state == message.Running {
			end(t, s.inside, "1", `{"result":1}`)
			if e := s.event(t, "tool_call", "call=1"); e.Unmapped.Extra["approved"] != "" {
				t.Errorf("the event claims that a person has approved it: %s", e.text)
			}
		}
	}
}

// The same id with the same call is the same call; with another one it's a conflict. Nothing is decided or run twice.
func TestSameID(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking)
	id := waits(t, submit(t, s.inside, bash("1", "id")))
	for range 3 {
		if again := waits(t, submit(t, s.inside, bash("1", "id"))); again != id {
			t.Errorf("the approval is %s, and was %s", again, id)
		}
	}
	if n := len(approvals(t, s.outside)); n != 1 {
		t.Errorf("%d approvals wait", n)
	}
	fails(t, s.inside, 409, "POST", message.Calls, bash("1", "id -u"))
	e := s.event(t, "tool_denied", "reason=request_rejected", "status=409")
	if !strings.Contains(e.Unmapped.Extra["message"], `"1"`) {
		t.Errorf("%s", e.text)
	}
	decided(t, s, id, message.AllowOnce)
	runs(t, after(t, s.inside, "1", time.Minute))
	runs(t, submit(t, s.inside, bash("1", "id"))) // still the same
	fails(t, s.inside, 409, "POST", message.Calls, bash("1", "id -u"))
	end(t, s.inside, "1", `{"result":1}`)
	waits(t, submit(t, s.inside, bash("1", "id -u"))) // it has ended: the id is free
}

// What is stored allows the same call, also in later sessions, and no other one: a difference in anything that was shown is asked about. The host is
// outside, and names the agent.
func TestAllowAlways(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		p.write(t, "tool.sh", "#!/bin/sh\necho one\n")
		p.write(t, "sub/x", "")
		s := p.start(t, asking)
		c := bash("1", "./tool.sh a").with("agent", "coder")
		id := waits(t, submit(t, s.outside, c))
		a := approval(t, s.outside, id)
		if !slices.Contains(a.Offers, message.AllowAlways) || a.Rule == "" {
			t.Fatalf("it can't be allowed for good: %s", show(a))
		}
		if !slices.ContainsFunc(a.Files, func(f message.File) bool { return f.Path == filepath.Join(p.workspace, "tool.sh") }) && (a.Exe == nil || a.Exe.Path != filepath.Join(p.workspace, "tool.sh")) {
			t.Errorf("the program isn't shown: %s", show(a))
		}
		decided(t, s, id, message.AllowAlways)
		if e := s.event(t, "approval", "what=decided"); e.Unmapped.Suggest != a.Rule {
			t.Errorf("the event doesn't have the rule: %s", e.text)
		}
		runs(t, after(t, s.outside, "1", time.Minute))
		runs(t, submit(t, s.outside, c.with("id", "2")))
		s.stop(t)

		s = p.again(t)
		runs(t, submit(t, s.outside, c))
		if n := len(s.find(t, "approval")); n != 0 {
			t.Errorf("a person is asked: %s", s.list(t))
		}
		for i, other := range []call{
			bash("", "./tool.sh b").with("agent", "coder"), c.with("cwd", "sub"), c.with("agent", "other"),
			bash("", "./tool.sh a"), c.with("arguments", call{"command": "./tool.sh a", "description": "x"}), c.with("tool", "Shell"),
		} {
			waits(t, submit(t, s.outside, other.with("id", fmt.Sprintf("other %d", i))))
		}
		runs(t, submit(t, s.outside, c.with("id", "3"))) // control
		p.write(t, "tool.sh", "#!/bin/sh\necho two\n")
		waits(t, submit(t, s.outside, c.with("id", "4")))
		p.write(t, "tool.sh", "#!/bin/sh\necho one\n")
		runs(t, submit(t, s.outside, c.with("id", "5")))
	})
}

// What can't be bound to its text is allowed once alone.
func TestOnlyOnce(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking+"[tools.save]\nkind = \"create\"\nask = \"always\"\npath_parameters = [\"to\"]\n")
	for i, c := range []call{
		bash("", `python3 -c 'print(1)'`), bash("", `$CMD x`), {"tool": "save", "arguments": call{"to": "x"}},
	} {
		id := waits(t, submit(t, s.inside, c.with("id", fmt.Sprint(i))))
		if a := approval(t, s.outside, id); !slices.Equal(a.Offers, []string{message.AllowOnce, message.Deny}) || a.Rule != "" {
			t.Errorf("%v: %s", c, show(a))
		}
		if r := decide(t, s.outside, id, message.AllowAlways); r.Status != 400 {
			t.Errorf("%v: %+v", c, r)
		}
		decided(t, s, id, message.AllowOnce)
		runs(t, after(t, s.inside, fmt.Sprint(i), time.Minute))
		waits(t, submit(t, s.inside, c.with("id", fmt.Sprint("again ", i))))
	}
}

// A file that was approved and is another one by the time of the decision doesn't run.
func TestReplacedFile(t *testing.T) {
	p := newFixture(t, ordinary())
	p.write(t, "tool.sh", "#!/bin/sh\necho one\n")
	p.write(t, "script", "echo one\n")
	s := p.start(t, asking)
	for i, row := range []struct{ command, file, text string }{
		{"./tool.sh", "tool.sh", "#!/bin/sh\necho two\n"},
		{"bash script", "script", "echo two\n"},
	} {
		first, second := fmt.Sprint(i), fmt.Sprint("replaced ", i)
		id := waits(t, submit(t, s.inside, bash(first, row.command)))
		decided(t, s, id, message.AllowOnce)
		runs(t, after(t, s.inside, first, time.Minute))
		id = waits(t, submit(t, s.inside, bash(second, row.command)))
		p.write(t, row.file, row.text)
		decided(t, s, id, message.AllowOnce)
		st := after(t, s.inside, second, time.Minute)
		s.denied(t, st, "approval_denied")
		if !strings.Contains(st.Answer.Message, "it was approved, and then") || !strings.Contains(st.Answer.Message, row.file) {
			t.Errorf("%s", show(st.Answer))
		}
	}
}

// A damaged store is an error: each call is denied, and what is stored isn't reset.
func TestDamagedStore(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking)
	id := waits(t, submit(t, s.inside, bash("1", "id")))
	if !slices.Contains(approval(t, s.outside, id).Offers, message.AllowAlways) {
		t.Fatal("id can't be allowed for good")
	}
	decided(t, s, id, message.AllowAlways)
	file := s.state("approvals.json")
	good, err := os.ReadFile(file)
	must(t, err)
	for i, text := range []string{"", "{", string(good[:len(good)/2]), "{}", strings.Replace(string(good), "Bash", "bash", 1)} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		s.denied(t, submit(t, s.inside, bash(fmt.Sprint("damaged ", i), "id")), "engine_error")
		if now, err := os.ReadFile(file); err != nil || string(now) != text {
			t.Errorf("the damaged store has been changed: %q, %v", now, err)
		}
		must(t, os.WriteFile(file, good, 0o600))
		runs(t, submit(t, s.inside, bash(fmt.Sprint("good ", i), "id")))
	}
	s.stop(t)
	must(t, os.WriteFile(file, []byte("{"), 0o600))
	out, err := p.exec(p.in + "/more.jsonl").CombinedOutput()
	if err == nil || !strings.Contains(string(out), file) {
		t.Errorf("a session starts with a damaged store: %v, %s", err, out)
	}
}

// Without more in [approvals] than that it's there, what isn't listed is asked about for two minutes, and denied if nobody answers. Without it, nobody is
// asked.
func TestDefaults(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, "commands.ls = {}\n[approvals]\nask = \"on-miss\"\n[gate]\nshell = \"bash\"\n")
	runs(t, submit(t, s.inside, bash("1", "ls")))
	a := approval(t, s.outside, waits(t, submit(t, s.inside, bash("2", "id"))))
	if a.Expires-a.Created != (2 * time.Minute).Milliseconds() {
		t.Errorf("%s", show(a))
	}
	s = p.start(t, "commands.ls = {}\n[gate]\nshell = \"bash\"\n")
	s.denied(t, submit(t, s.inside, bash("3", "$CMD")), "approval_denied")
}
