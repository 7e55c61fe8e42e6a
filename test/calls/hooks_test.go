//go:build linux

package calls

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// beforeHook is a row: a program, and what it makes of a call of the tool of the row's name.
type beforeHook struct {
	name, script string // "": there is none
	reason       string // of the denial; "": the call runs, "ask": a person is asked
	text         string // in the denial
	arguments    string // with which the call runs; "": its own
	failed       bool   // the event is that the hook failed
}

var beforeHooks = []beforeHook{
	{name: "passes", script: `cat >/dev/null; echo '{}'`},
	{name: "reads_nothing", script: `exec <&-; echo '{}'`},
	{name: "blocks", script: `echo '{"block":true,"reason":"not today"}'`, reason: "hook_blocked", text: "tool call blocked by hook blocks: not today"},
	{name: "blocks_silently", script: `echo '{"block":true}'`, reason: "hook_blocked", text: "tool call blocked by hook blocks_silently"},
	{name: "asks", script: `echo '{"ask":true,"reason":"is it right?"}'`, reason: "ask", text: "hook asks asks for an approval: is it right?"},
	{name: "rewrites", script: `echo '{"arguments":{"y":2}}'`, arguments: `{"x":1,"y":2}`},
	{name: "overrides", script: `echo '{"arguments":{"x":{"a":1}}}'`, arguments: `{"x":{"a":1}}`},
	{name: "leads_outside", script: `echo '{"arguments":{"file_path":"/etc/shadow"}}'`, reason: "outside_workspace", text: "/etc/shadow"},
	{name: "malformed", script: `echo '{'`, reason: "hook_blocked", text: "its answer isn't valid", failed: true},
	{name: "empty", script: `exit 0`, reason: "hook_blocked", text: "its answer is empty", failed: true},
	{name: "null", script: `echo null`, reason: "hook_blocked", text: "its answer isn't valid", failed: true},
	{name: "list", script: `echo '[]'`, reason: "hook_blocked", text: "its answer isn't valid", failed: true},
	{name: "unknown_key", script: `echo '{"allow":true}'`, reason: "hook_blocked", text: "its answer isn't valid", failed: true},
	{name: "block_false", script: `echo '{"block":false}'`, reason: "hook_blocked", text: "its answer isn't valid", failed: true},
	{name: "twice", script: `echo '{}'; echo '{}'`, reason: "hook_blocked", text: "its answer isn't valid", failed: true},
	{name: "slow", script: `exec sleep 1000`, reason: "hook_blocked", text: "it took longer than 1s", failed: true},
	{name: "slow_to_end", script: `echo '{}'; exec sleep 1000`, reason: "hook_blocked", text: "it took longer than 1s", failed: true},
	{name: "huge", script: `exec head -c 3000000 /dev/zero`, reason: "hook_blocked", text: "larger than 1 MiB", failed: true},
	{name: "endless", script: `exec cat /dev/zero`, reason: "hook_blocked", text: "larger than 1 MiB", failed: true},
	{name: "crashes", script: `echo '{}'; kill -9 $$`, reason: "hook_blocked", text: "ended by the signal", failed: true},
	{name: "fails", script: `echo '{}'; echo broken >&2; exit 3`, reason: "hook_blocked", text: "broken", failed: true},
	{name: "left_open", script: `sleep 1000 & echo '{}'`, reason: "", text: ""},
	{name: "missing", reason: "hook_blocked", text: "blocked by hook missing", failed: true},
}

// Whatever a hook does, each call is decided, and what isn't a clear answer blocks.
func TestBeforeHooks(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		policy := "[approvals]\ntimeout = \"10m\"\n"
		for _, h := range beforeHooks {
			if h.script != "" {
				p.write(t, "policy/"+h.name, "#!/bin/sh\n"+h.script+"\n")
			}
			timeout := "30s"
			if strings.HasPrefix(h.name, "slow") {
				timeout = "1s"
			}
			policy += fmt.Sprintf("[[hooks.before_tool_call]]\ncommand = [\"./%s\"]\ntools = [\"%s\"]\ntimeout = %q\n", h.name, h.name, timeout)
		}
		s := p.start(t, policy)
		var all []<-chan *reply
		for _, h := range beforeHooks {
			all = append(all, s.inside.begin(request("POST", message.Calls, call{"id": h.name, "tool": h.name, "arguments": call{"x": 1}})))
		}
		for i, h := range beforeHooks {
			st := read[message.State](t, s.inside.wait(t, all[i]))
			switch h.reason {
			case "":
				runs(t, st)
				if want := cmp.Or(h.arguments, `{"x":1}`); string(st.Arguments) != want {
					t.Errorf("%s: its arguments are %s", h.name, st.Arguments)
				}
			case "ask":
				a := approval(t, s.outside, waits(t, st))
				if !strings.Contains(a.Reason, h.text) || slices.Contains(a.Offers, message.AllowAlways) {
					t.Errorf("%s: %s", h.name, show(a))
				}
			default:
				s.denied(t, st, h.reason)
				if !strings.Contains(st.Answer.Message, h.text) {
					t.Errorf("%s: %s", h.name, st.Answer.Message)
				}
			}
			if h.failed {
				s.event(t, "hook_failed", "hook="+h.name, "stage=before", "call="+h.name)
			} else if n := len(s.find(t, "hook_failed", "call="+h.name)); n != 0 {
				t.Errorf("%s: %d failures", h.name, n)
			}
		}
	})
}

// logging is a hook that appends what it gets to policy/NAME.log, and answers.
func (p *fixture) logging(t *testing.T, name, answer string) {
	t.Helper()
	p.write(t, "policy/"+name, fmt.Sprintf("#!/bin/sh\ncat >> %s.log\necho '%s'\n", name, answer))
}

// hooked is what a hook got.
type hooked struct {
	Event, ID, Tool, Cwd, Agent, Session, Invocation, Risk string
	Arguments, Result, Error                               json.RawMessage
	Duration                                               int64 `json:"duration_ms"`
}

// logged is what a logging hook got.
func (p *fixture) logged(t *testing.T, name string) (all []hooked) {
	t.Helper()
	text, err := os.ReadFile(p.in + "/" + name + ".log")
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var h hooked
		if err := json.Unmarshal([]byte(line), &h); err == nil { // else it's being written
			all = append(all, h)
		}
	}
	return all
}

// waitLogged waits until a hook has got n calls.
func (p *fixture) waitLogged(t *testing.T, name string, n int) []hooked {
	t.Helper()
	if !eventually(func() bool { return len(p.logged(t, name)) >= n }) {
		t.Fatalf("%s got %s", name, show(p.logged(t, name)))
	}
	return p.logged(t, name)
}

// Hooks run in their order; each gets what the ones before it made of the arguments, and what hooks have changed is what the host, the person,
// the hook after the call and the event get.
func TestRewrittenArguments(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		p.logging(t, "first", `{"arguments":{"x":"one","y":"one"}}`)
		p.logging(t, "second", `{"arguments":{"y":"two"},"ask":true,"reason":"really?"}`)
		p.logging(t, "third", `{}`)
		p.logging(t, "after", "")
		s := p.start(t, `
[approvals]
timeout = "10m"
[[hooks.before_tool_call]]
command = ["./first"]
tools = ["t*"]
[[hooks.before_tool_call]]
command = ["./second"]
tools = ["t*"]
[[hooks.before_tool_call]]
command = ["./third"]
[[hooks.after_tool_call]]
command = ["./after"]
`, "--agent", "coder")
		id := waits(t, submit(t, s.inside, call{"id": "1", "tool": "tool", "arguments": call{"x": "", "z": "zero"}, "invocation": "i", "cwd": "."}))
		const want = `{"x":"one","y":"two","z":"zero"}`
		if a := approval(t, s.outside, id); sorted(t, a.Arguments) != want {
			t.Errorf("a person sees %s", a.Arguments)
		}
		decided(t, s, id, message.AllowOnce)
		st := after(t, s.inside, "1", time.Minute)
		runs(t, st)
		if sorted(t, st.Arguments) != want {
			t.Errorf("it runs with %s", st.Arguments)
		}
		end(t, s.inside, "1", `{"result":{"ok":true},"duration_ms":12}`)
		if e := s.event(t, "tool_call", "call=1", "end=ok", "rewritten=true", "approved=true"); sorted(t, []byte(e.Unmapped.Extra["arguments"])) != want {
			t.Errorf("the event has %s", e.text)
		}
		for name, arguments := range map[string]string{"first": `{"x":"","z":"zero"}`, "second": `{"x":"one","y":"one","z":"zero"}`, "third": want, "after": want} {
			got := p.waitLogged(t, name, 1)[0]
			if sorted(t, got.Arguments) != arguments || got.ID != "1" || got.Tool != "tool" || got.Agent != "coder" || got.Invocation != "i" || got.Risk != "high" || got.Session == "" {
				t.Errorf("%s got %s", name, show(got))
			}
			if name != "after" && got.Event != "before_tool_call" || name == "after" && (got.Event != "after_tool_call" || string(got.Result) != `{"ok":true}` || got.Duration != 12) {
				t.Errorf("%s got %s", name, show(got))
			}
		}
		// Control: a call that no hook has changed.
		st = submit(t, s.inside, call{"id": "2", "tool": "other", "arguments": call{"x": ""}})
		runs(t, st)
		end(t, s.inside, "2", `{"result":1}`)
		if e := s.event(t, "tool_call", "call=2"); string(st.Arguments) != `{"x":""}` || e.Unmapped.Extra["rewritten"] != "" {
			t.Errorf("%s, %s", st.Arguments, e.text)
		}
	})
}

// sorted is an object with its keys in order.
func sorted(t *testing.T, text []byte) string {
	t.Helper()
	var v map[string]any
	must(t, json.Unmarshal(text, &v))
	return show(v)
}

// A block ends the hooks of a call, and no later one lifts it. An ask stays, whatever later hooks answer.
func TestBlockStays(t *testing.T) {
	p := newFixture(t, ordinary())
	p.logging(t, "blocks", `{"block":true}`)
	p.logging(t, "asks", `{"ask":true}`)
	p.logging(t, "last", `{}`)
	s := p.start(t, `
[[hooks.before_tool_call]]
command = ["./blocks"]
tools = ["a"]
[[hooks.before_tool_call]]
command = ["./asks"]
tools = ["b"]
[[hooks.before_tool_call]]
command = ["./last"]
`)
	s.denied(t, submit(t, s.inside, call{"id": "1", "tool": "a", "arguments": call{}}), "hook_blocked")
	s.denied(t, submit(t, s.inside, call{"id": "2", "tool": "b", "arguments": call{}}), "approval_denied") // nobody is asked without [approvals]
	runs(t, submit(t, s.inside, call{"id": "3", "tool": "c", "arguments": call{}}))
	if got := p.logged(t, "last"); len(got) != 2 || got[0].ID != "2" || got[1].ID != "3" {
		t.Errorf("the last hook got %s", show(got))
	}
}

// A hook sees no call that was denied before it, also not one that another hook has changed into such a call. Nor is there a hook after it.
func TestHooksSeeNoDeniedCall(t *testing.T) {
	p := newFixture(t, ordinary())
	p.logging(t, "changes", `{"arguments":{"file_path":"/etc/shadow"}}`)
	p.logging(t, "all", `{}`)
	p.logging(t, "after", ``)
	s := p.start(t, `
[[hooks.before_tool_call]]
command = ["./changes"]
tools = ["changed"]
[[hooks.before_tool_call]]
command = ["./all"]
[[hooks.after_tool_call]]
command = ["./after"]
[authorities.global]
deny = ["hidden"]
[tools]
changed = { kind = "read" }
never = { constraints.forbidden = true }
owners = { owner_only = true }
local = { command = ["echo", "{x}"] }
`)
	for reason, c := range map[string]call{
		"not_visible":       {"tool": "hidden", "arguments": call{}},
		"owner_only":        {"tool": "owners", "arguments": call{}},
		"schema":            {"tool": "local", "arguments": call{"y": "1"}},
		"constraint":        {"tool": "never", "arguments": call{}, "invocation": "i"},
		"outside_workspace": {"tool": "changed", "arguments": call{"file_path": "x"}},
		"workspace_escape":  bash("", "cat ../x"),
	} {
		s.denied(t, submit(t, s.inside, c.with("id", reason).with("invocation", "i")), reason)
	}
	runs(t, submit(t, s.inside, bash("fine", "ls").with("invocation", "i")))
	end(t, s.inside, "fine", `{"result":1}`)
	for _, name := range []string{"all", "after"} {
		if got := p.waitLogged(t, name, 1); len(got) != 1 || got[0].ID != "fine" {
			t.Errorf("%s got %s", name, show(got))
		}
	}
	if got := p.logged(t, "changes"); len(got) != 1 {
		t.Errorf("control: the hook that changes got %s", show(got))
	}
}

// A hook after a call runs when the call has succeeded, failed, or was cancelled, and nothing waits for it.
func TestAfterHooks(t *testing.T) {
	p := newFixture(t, ordinary())
	p.write(t, "policy/after", "#!/bin/sh\nuntil [ -e go ]; do sleep 0.05; done\ncat >> after.log\n")
	p.write(t, "policy/broken", "#!/bin/sh\nexit 3\n")
	s := p.start(t, `
[[hooks.after_tool_call]]
command = ["./after"]
timeout = "60s"
[[hooks.after_tool_call]]
command = ["./broken"]
tools = ["c"]
`)
	for i, row := range []struct{ id, path, body, event string }{
		{"good", message.Result, `{"result":"r","duration_ms":1}`, "ok"},
		{"bad", message.Result, `{"error":"e","duration_ms":2}`, "error"},
		{"gone", message.Cancel, `{}`, "cancelled"},
	} {
		runs(t, submit(t, s.inside, call{"id": row.id, "tool": string(rune('a' + i)), "arguments": call{"n": i}}))
		get[struct{}](t, s.inside, "POST", message.Calls+"/"+row.id+row.path, row.body) // the hook still waits
		s.event(t, "tool_call", "call="+row.id, "end="+row.event)
	}
	runs(t, submit(t, s.inside, call{"id": "next", "tool": "x", "arguments": call{}}))
	if got := p.logged(t, "after"); len(got) != 0 {
		t.Errorf("the hook hasn't waited: %s", show(got))
	}
	p.write(t, "policy/go", "")
	results := map[string]string{}
	for _, h := range p.waitLogged(t, "after", 3) {
		results[h.ID] = string(h.Result) + string(h.Error)
	}
	if want := `map[bad:"e" gone:"cancelled" good:"r"]`; fmt.Sprint(results) != want {
		t.Errorf("got %v, want %s", results, want)
	}
	s.event(t, "hook_failed", "hook=broken", "stage=after", "call=gone")
	if n := len(s.find(t, "hook_failed")); n != 1 {
		t.Errorf("%d hooks have failed: %s", n, s.list(t))
	}
}
