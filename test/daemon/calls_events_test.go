//go:build linux

package daemon

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// Each step of a call's life, and of a grant's, is one event in toolguardd's audit and one in the session's own events. What an event says of the
// session is what toolguardd knows of it.
func TestToolCallEvents(t *testing.T) {
	state := share(t).state
	h := newHost(t, nobodyUID, "name = \"a policy\"\n"+approving+"[tools.never]\nconstraints.forbidden = true\n", "--agent", "night").begin()
	id, person := h.id(), h.outside(nobodyUID)
	if s := h.submit("never", "never", map[string]string{}); s.State != message.Denied {
		t.Errorf("a forbidden call is %s", s.State)
	}
	person.decides(id, h.bash("once"), message.AllowOnce, 0)
	h.wantState("once", message.Running)
	h.want(200, "POST", message.Calls+"/once/result", map[string]any{"error": "it failed", "duration_ms": 5})
	person.decides(id, h.bash("no"), message.Deny, 0)
	h.wantState("no", message.Denied)
	asked := h.grant("fs", "read", h.job.outside)
	h.want(403, "POST", message.Approvals+"/"+asked, once)
	person.decides(id, asked, message.AllowOnce, time.Hour)
	h.end()
	eventually(t, "the session's end is recorded", func() bool {
		return slices.ContainsFunc(auditOf(t, state, "session_end"), func(e seenEvent) bool { return e.Session == id })
	})
	recorded := slices.DeleteFunc(inAudit(t, state), func(e callEvent) bool { return e.Unmapped.Session != id })
	text, err := os.ReadFile(h.events)
	must(t, err)
	want := []string{
		"approval Bash no decided by 65534", "approval Bash no requested", "approval Bash once decided by 65534", "approval Bash once requested",
		"grant " + h.job.outside + "  given by 65534", "grant " + h.job.outside + "  requested",
		"tool_call Bash once error", "tool_denied Bash no approval_denied", "tool_denied POST /v1/approvals/" + asked + "  request_rejected by 65534", "tool_denied never never constraint",
	}
	for where, list := range map[string][]callEvent{"the audit": recorded, "the session's own events": callEvents(t, text)} {
		var got []string
		for _, e := range list {
			u := e.Unmapped
			what := u.Kind + " " + u.Target + " " + u.Extra["call"] + " " + u.Extra["what"] + u.Extra["end"] + u.Reason
			if p := e.Actor.Process; p.PID != 0 {
				what += " by " + p.User.UID
			}
			if got = append(got, what); u.Session != id || e.Policy.Name != "a policy" {
				t.Errorf("%s: %s is about the session %s and the policy %s", where, what, u.Session, e.Policy.Name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("%s: got\n%s\nwant\n%s", where, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// Only the toolguard of a session reports its calls, and nothing else.
func TestToolCallEventsAreTheirs(t *testing.T) {
	state := share(t).state
	h := newHost(t, nobodyUID, approving).begin()
	id := h.id()
	forged := map[string]any{"event": event.Event{Kind: event.ToolDeny, Time: time.Now(), Target: "forged"}}
	path := api.Sessions + "/" + id + api.CallEvents
	for who, a := range map[string]*agent{"a process of the session": h.agent, "its user": h.outside(nobodyUID), "root": h.outside(0)} {
		if r := a.want(403, "POST", path, forged); !strings.Contains(string(r.Body), "only the process that started session "+id) {
			t.Errorf("%s gets %s", who, r.Body)
		}
	}
	h.outside(other).want(404, "POST", path, forged)

	c := &api.Client{Socket: socket} // this process begins a session itself
	var s api.Session
	must(t, c.Do("POST", api.Sessions, api.Start{Policy: readonly(t), Argv: []string{"true"}}, &s))
	t.Cleanup(func() { _, _ = ask(t, 0, "sessions", "kill", s.ID) })
	for _, x := range []struct {
		kind event.Kind
		want string
	}{
		{event.Denial, "only events about calls"},
		{event.SessionEnd, "only events about calls"},
		{event.Daemon, "only events about calls"},
		{event.ToolDeny, "is starting"},
	} {
		err := c.Do("POST", api.Sessions+"/"+s.ID+api.CallEvents, api.CallEvent{Event: &event.Event{Kind: x.kind, Time: time.Now(), Target: "forged"}}, nil)
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: %v, want %q", x.kind, err, x.want)
		}
	}
	for _, e := range auditOf(t, state, "") {
		if e.Target == "forged" {
			t.Errorf("it's recorded: %+v", e)
		}
	}
}

// A flood of denied calls loses neither the session's end nor what happens to others.
func TestToolCallFlood(t *testing.T) {
	state := share(t).state
	h := newHost(t, nobodyUID, approving+"[tools.never]\nconstraints.forbidden = true\n").begin()
	id := h.id()
	var flood []<-chan reply
	for i := range 8 {
		flood = append(flood, h.send(map[string]any{"do": "floods", "args": []any{fmt.Sprint("f", i, "-"), "never", 150}}))
	}
	j := newJob(t, other, work, `read x <OUTSIDE; exit 7`)
	if got := j.start().status(); got != 7 {
		t.Errorf("exit status %d", got)
	}
	denied := 0
	for _, f := range flood {
		denied += in[int](h.agent, h.await(f))
	}
	h.end()
	eventually(t, "both sessions' ends are recorded", func() bool {
		n := 0
		for _, e := range auditOf(t, state, "session_end") {
			if e.Session == id || e.Session == j.reported()[0].Session {
				n++
			}
		}
		return n == 2
	})
	seen := slices.ContainsFunc(auditOf(t, state, "denial"), func(e seenEvent) bool { return e.Target == j.outside })
	n := 0
	for _, e := range inAudit(t, state) {
		if e.Unmapped.Session == id && e.Unmapped.Kind == "tool_denied" {
			n++
		}
	}
	t.Logf("%d calls were denied, %d are recorded", denied, n)
	if !seen || denied == 0 || n > denied || n < denied && len(auditOf(t, state, "gap")) == 0 {
		t.Errorf("another user's denial is recorded: %v; %d of %d calls are", seen, n, denied)
	}
}

// A flood of requests from within a session doesn't keep its user from deciding.
func TestToolCallQuotas(t *testing.T) {
	share(t)
	h := newHost(t, nobodyUID, approving).begin()
	id := h.id()
	var all []<-chan reply
	for i := range 300 {
		all = append(all, h.send(map[string]any{"do": "waits", "args": []any{fmt.Sprintf("%s-%d", h.job.outside, i)}}))
	}
	person := h.outside(nobodyUID)
	ids := person.listedOnce(4) // on a slow machine, many of the requests wait too long to be served
	for _, asked := range ids[:3] {
		if effect := person.decides(id, asked, message.AllowOnce, 0); effect != "now" {
			t.Errorf("the effect is %q", effect)
		}
	}
	person.decides(id, h.outside(nobodyUID).listedOnce(1)[0], message.Deny, 0)
	served, rejected := 0, 0
	for _, c := range all {
		select {
		case r := <-c:
			if status := in[int](h.agent, r); status == 429 || status == 503 { // too many, or toolguardd has waited too long for the session
				rejected++
			} else if served++; status != 200 {
				t.Errorf("a request from within is answered with %d", status)
			}
		default:
		}
	}
	t.Logf("%d requests from within are answered, %d rejected, %d wait", served, rejected, len(all)-served-rejected)
	if rejected == 0 {
		t.Error("there are no bounds, so this tests nothing")
	}
}

// root's own session without toolguardd has its calls on a descriptor, under the same BPF programs. Nothing can change its policy while it runs.
func TestToolCallsOfRoot(t *testing.T) {
	share(t)
	h := newHost(t, 0, approving, "--daemon", "none").begin()
	if at := do[string](h.agent, "env", "TOOLGUARD_SOCKET"); !strings.HasPrefix(at, "fd:") {
		t.Errorf("the session's address for calls is %s", at)
	}
	own, err := os.ReadDir(h.home + "/.local/state/toolguard/run")
	must(t, err)
	name := ""
	for _, f := range own {
		if strings.HasSuffix(f.Name(), ".sock") {
			name = h.home + "/.local/state/toolguard/run/" + f.Name()
		}
	}
	person := h.at(name, 0)
	h.want(403, "POST", message.Approvals+"/"+h.bash("1"), once)
	person.want(200, "POST", message.Approvals+"/"+person.listed()[0], once)
	h.wantState("1", message.Running)
	asked := h.grant("fs", "read", h.job.outside)
	effect := in[message.Decided](person, person.want(200, "POST", message.Approvals+"/"+asked, once)).Effect
	if !strings.HasPrefix(effect, "next start: toolguardd didn't make the session") {
		t.Errorf("the effect is %q", effect)
	}
	if h.tries(h.job.outside, "read") {
		t.Error("the grant is in force already")
	}
	toolguardd := h.outside(0)
	if list := toolguardd.listed(); len(list) != 0 {
		t.Errorf("toolguardd lists %q", list)
	}
	if do[string](h.agent, "sh", "curl -s -w %{http_code} --unix-socket "+socket+" http://toolguard"+message.Approvals+" | tail -c 3") != "404" {
		t.Error("a process of the session reaches approvals at toolguardd")
	}
}
