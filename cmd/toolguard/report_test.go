package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session"
)

var must = childtest.Must

// TestReportIsBounded: however many different things were denied, some are listed, and all are counted.
func TestReportIsBounded(t *testing.T) {
	var in []byte
	const kinds = 3 * session.MostListed
	for round := range 2 {
		for i := range kinds {
			e := event.Event{Kind: event.Denial, Session: "s1", Resource: "fs", Capability: "read", Target: fmt.Sprint("/x/", i), Reason: "no_rule", Count: 2}
			e.Process = []event.Process{{PID: 1, UID: 0, Exe: "/bin/sh"}}
			in = event.OCSF.Append(in, &e)
			if round == 0 {
				e.Resource, e.Target, e.Count = "env", fmt.Sprint("V", i), 1
				in = event.OCSF.Append(in, &e)
			}
		}
	}
	a := &app{in: bytes.NewReader(in)}
	s := session.Summary{}
	must(t, a.eachEvent(nil, "", "-", s.Add))
	j := output.SummaryJSON(&s)
	if len(j.Denials) != session.MostListed || len(j.Env) != session.MostListed || len(s.Result.Denials) != session.MostListed {
		t.Errorf("%d denials and %d variables are listed, %d kept", len(j.Denials), len(j.Env), len(s.Result.Denials))
	}
	if j.Total != 4*kinds || j.Others != 4*(kinds-session.MostListed)+kinds-session.MostListed || j.Denials[0].Count != 4 || s.Result.Denials[0].Process != nil {
		t.Errorf("%d, of them %d others; the first one %d times", j.Total, j.Others, j.Denials[0].Count)
	}
	out, text := plainScreen()
	out.Summary(&s)
	if !strings.Contains(text.String(), "\n  and 10000 denials of other kinds, beyond the first 1000: ") {
		t.Error(text)
	}
	a.in = strings.NewReader(strings.Repeat("x", longestEvent+1))
	if err := a.eachEvent(nil, "", "-", s.Add); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Error(err)
	}
}

// TestReportOfCalls: a summary has the calls that were denied, and who decided about the others.
func TestReportOfCalls(t *testing.T) {
	call := func(tool string) *event.Call { return &event.Call{ID: tool + "-1", Tool: tool} }
	by := event.Decider{UID: 1000, PID: 4801, Exe: "/usr/bin/toolguard", Via: "terminal"}
	grant := &event.GrantRequest{ID: "a1", Resource: "fs", Capability: "read", Target: "/srv"} // the same id as of an approval
	ruled := event.ToolDenied(call("Write"), "rule_denies", "access denied: update on x")
	ruled.Rule, ruled.Place = "fs.3", "p.toml:12:1"
	var in []byte
	for _, e := range []event.Event{
		event.ToolDenied(call("Bash"), "not_visible", "no such tool"),
		event.ToolDenied(call("Bash"), "not_visible", "no such tool"),
		ruled,
		event.ApprovalRequested(call("exec"), "a1", "no rule names what it runs"),
		event.ApprovalDecided(call("exec"), "a1", "allow-once", "", by),
		event.ToolRan(call("exec"), event.OK, time.Second, false, true),
		event.ToolRan(call("read\x1b[2J"), event.Failed, time.Second, false, false),
		event.ApprovalRequested(call("exec"), "a2", "no rule names what it runs"),
		event.ApprovalEnded(call("exec"), "a2", event.Expired),
		event.GrantRequested(grant),
		event.GrantDecided(grant, event.Given, "next start: landlock can't widen a session", event.Decider{UID: -1, Via: "api"}),
		event.ApprovalRequested(call("exec"), "a3", "no rule names what it runs"),
		event.HookFailure(call("exec"), "scan", "after", "no answer"),
	} {
		e.Session = "s1"
		in = event.OCSF.Append(in, &e)
	}
	a := &app{in: bytes.NewReader(in)}
	var s session.Summary
	must(t, a.eachEvent(nil, "", "-", s.Add))
	out, text := plainScreen()
	out.Summary(&s)
	const want = `calls    2 ran (1 of them with an error), 3 denied, 1 failed hook
calls that were denied
  Bash   not_visible        ×2  no such tool
  Write  fs.3, p.toml:12:1      access denied: update on x
requests to a person
  allow-once  call of exec           by user 1000, /usr/bin/toolguard[4801], via terminal
  expired     call of exec
  given       grant of fs read /srv  via api                                               next start: landlock can't widen a session
  open        call of exec
`
	if !strings.Contains(text.String(), want) {
		t.Errorf("the summary is\n%s\nand has no\n%s", text, want)
	}
	j := output.SummaryJSON(&s)
	if c := j.Calls; c == nil || c.Ran != 2 || c.Failed != 1 || c.Denied != 3 || c.HookFailures != 1 || len(c.Denials) != 2 || len(c.Approvals) != 4 ||
		*c.Approvals[0].ResolvedBy.UID != 1000 || c.Approvals[2].ResolvedBy.UID != nil || c.Approvals[1].ResolvedBy != nil || j.Total != 0 {
		t.Errorf("%+v", c)
	}
}

// TestReportOfManyCalls: however many calls and requests there are, some are listed, and all are counted.
func TestReportOfManyCalls(t *testing.T) {
	var s session.Summary
	const n = session.MostListed + 7
	for i := range n {
		for _, e := range []event.Event{
			event.ToolDenied(&event.Call{ID: "1", Tool: fmt.Sprint("t", i)}, "not_visible", "x"),
			event.ApprovalRequested(&event.Call{ID: "1", Tool: "t"}, fmt.Sprint("a", i), "x"),
			event.ApprovalEnded(&event.Call{ID: "1", Tool: "t"}, fmt.Sprint("a", i), event.Expired),
		} {
			e.Session = "s1"
			s.Add(&e)
		}
	}
	if c := &s.Calls; c.Denied != n || len(c.Denials) != session.MostListed || len(c.Approvals) != session.MostListed || c.Others != 2*7 {
		t.Errorf("%d denied, %d and %d listed, %d others", c.Denied, len(c.Denials), len(c.Approvals), c.Others)
	}
	out, text := plainScreen()
	out.Summary(&s)
	if lines := strings.Count(text.String(), "\n"); lines > 60 || strings.Count(text.String(), " more (--json has them)\n") != 2 {
		t.Errorf("%d lines:\n%s", lines, text)
	}
}
