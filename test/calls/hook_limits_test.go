//go:build linux

package calls

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// 64 calls at once, half of which have a hook that never answers: each is decided.
func TestManyHooks(t *testing.T) {
	p := newFixture(t, ordinary())
	p.write(t, "policy/fine", "#!/bin/sh\necho '{\"arguments\":{\"y\":1}}'\n")
	p.write(t, "policy/stuck", "#!/bin/sh\nexec sleep 1000\n")
	s := p.start(t, `
[[hooks.before_tool_call]]
command = ["./stuck"]
tools = ["stuck"]
timeout = "1s"
[[hooks.before_tool_call]]
command = ["./fine"]
tools = ["fine"]
timeout = "60s"
`)
	var all []<-chan *reply
	for i := range 64 {
		all = append(all, s.inside.begin(request("POST", message.Calls, call{"id": fmt.Sprint(i), "tool": []string{"fine", "stuck"}[i%2], "arguments": call{"x": i}})))
	}
	for i, c := range all {
		st := read[message.State](t, s.inside.wait(t, c))
		if i%2 == 1 {
			s.denied(t, st, "hook_blocked")
			continue
		}
		runs(t, st)
		if want := fmt.Sprintf(`{"x":%d,"y":1}`, i); string(st.Arguments) != want {
			t.Errorf("%s, want %s", st.Arguments, want)
		}
	}
	if n := processes(t, "sleep\x001000\x00"); n != 0 && !eventually(func() bool { return processes(t, "sleep\x001000\x00") == 0 }) {
		t.Errorf("%d hooks still run", n)
	}
}

// A hook whose program isn't the one of the session's begin doesn't run, and blocks.
func TestReplacedHook(t *testing.T) {
	p := newFixture(t, ordinary())
	p.logging(t, "hook", `{}`)
	s := p.start(t, "[[hooks.before_tool_call]]\ncommand = [\"./hook\"]\n")
	runs(t, submit(t, s.inside, bash("1", "ls")))
	p.write(t, "policy/hook", "#!/bin/sh\ntouch replaced\necho '{}'\n")
	st := submit(t, s.inside, bash("2", "ls"))
	s.denied(t, st, "hook_blocked")
	if _, err := os.Stat(p.in + "/replaced"); err == nil || !strings.Contains(st.Answer.Message, p.in+"/hook") {
		t.Errorf("%v, %s", err, show(st.Answer))
	}
	p.logging(t, "hook", `{}`)
	runs(t, submit(t, s.inside, bash("3", "ls")))
}

// A call that is cancelled while its hook runs ends at once, and so does the hook; it doesn't run, and isn't answered as if it did.
func TestCancelledHook(t *testing.T) {
	p := newFixture(t, ordinary())
	p.write(t, "policy/slow", "#!/bin/sh\nexec sleep 2001\n")
	s := p.start(t, "[[hooks.before_tool_call]]\ncommand = [\"./slow\"]\ntools = [\"slow\"]\ntimeout = \"60s\"\n")
	waiting := s.inside.begin(request("POST", message.Calls, call{"id": "1", "tool": "slow", "arguments": call{}}))
	if !eventually(func() bool { return processes(t, "sleep\x002001\x00") == 1 }) {
		t.Fatal("the hook doesn't run")
	}
	get[struct{}](t, s.inside, "POST", message.Calls+"/1"+message.Cancel, nil)
	if st := read[message.State](t, s.inside.wait(t, waiting)); st.State != message.Denied {
		t.Errorf("%s", show(st))
	}
	if !eventually(func() bool { return processes(t, "sleep\x002001\x00") == 0 }) {
		t.Error("the hook still runs")
	}
	fails(t, s.inside, 404, "POST", message.Calls+"/1"+message.Result, `{"result":1}`)
	runs(t, submit(t, s.inside, call{"id": "1", "tool": "other", "arguments": call{}}))
}

// The memory of arguments that hooks have changed is bounded: the oldest are lost, and their calls denied.
func TestRewritesAreBounded(t *testing.T) {
	p := newFixture(t, ordinary())
	p.write(t, "policy/hook", "#!/bin/sh\nprintf '{\"arguments\":{\"y\":\"'\nhead -c 996147 /dev/zero | tr '\\0' y\nprintf '\"}}'\n")
	s := p.start(t, "[[hooks.before_tool_call]]\ncommand = [\"./hook\"]\ntimeout = \"30s\"\n")
	long := strings.Repeat("x", 6501171)
	for i := range 9 { // each has 7.15 MiB then
		runs(t, submit(t, s.inside, call{"id": fmt.Sprint(i), "tool": "any", "arguments": call{"x": long}}))
		if i == 7 {
			runs(t, after(t, s.inside, "0", 0)) // control
		}
	}
	s.denied(t, after(t, s.inside, "0", 0), "rewrite_lost")
	fails(t, s.inside, 409, "POST", message.Calls+"/0"+message.Result, `{"result":1}`)
	runs(t, after(t, s.inside, "1", 0))
	end(t, s.inside, "8", `{"result":1}`)
}
