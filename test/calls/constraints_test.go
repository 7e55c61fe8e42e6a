//go:build linux

package calls

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

const counted = `
[approvals]
timeout = "10m"
[tools]
ten = { constraints.max_invocations = 10 }
thirty = { constraints.max_invocations = 30 }
asked = { ask = "always", constraints.max_invocations = 2 }
commit = { constraints.only_after = ["fetch"] }
`

// of is a call of a tool within an invocation.
func of(id, tool, invocation string) call {
	return call{"id": id, "tool": tool, "arguments": call{"id": id}, "invocation": invocation}
}

// running counts the calls that run, and checks that the others are denied by a constraint.
func (s *session) running(t *testing.T, all []<-chan *reply) (n int) {
	t.Helper()
	for _, c := range all {
		st := read[message.State](t, s.inside.wait(t, c))
		if st.State == message.Running {
			runs(t, st)
			n++
			continue
		}
		if st.State != message.Denied || st.Answer.Reason != "constraint" {
			t.Errorf("%s", show(st))
		}
	}
	return n
}

// 64 callers in two sessions at once: as many calls run as may, and none more, also later. Other invocations count for themselves.
func TestMaxInvocations(t *testing.T) {
	eachUser(t, func(t *testing.T, p *fixture) {
		a := p.start(t, counted)
		b := p.again(t)
		var ofA, ofB []<-chan *reply
		for i := range 32 {
			ofA = append(ofA, a.inside.begin(request("POST", message.Calls, of(fmt.Sprint("a", i), "ten", "i"))))
			ofB = append(ofB, b.inside.begin(request("POST", message.Calls, of(fmt.Sprint("b", i), "ten", "i"))))
		}
		if n, m := a.running(t, ofA), b.running(t, ofB); n+m != 10 {
			t.Errorf("%d and %d calls run", n, m)
		}
		st := submit(t, b.outside, of("more", "ten", "i"))
		b.denied(t, st, "constraint")
		if !strings.Contains(st.Answer.Message, "10 times") {
			t.Errorf("%s", st.Answer.Message)
		}
		runs(t, submit(t, b.outside, of("more", "ten", "other")))
		for _, s := range []*session{a, b} {
			fails(t, s.inside, 400, "POST", message.Calls, call{"id": "none", "tool": "other", "arguments": call{}})
		}
		a.stop(t)
		b.stop(t)
		c := p.again(t)
		c.denied(t, submit(t, c.inside, of("later", "ten", "i")), "constraint")
	})
}

// A process that is killed while it counts loses no count, and leaves a state that others can use.
func TestKilledWhileCounting(t *testing.T) {
	p := newFixture(t, ordinary())
	a := p.start(t, counted)
	b := p.again(t)
	for round := range 5 {
		invocation := fmt.Sprint("round ", round)
		var all []<-chan *reply
		for i := range 20 {
			all = append(all, a.inside.begin(request("POST", message.Calls, of(fmt.Sprint(i), "thirty", invocation))))
		}
		before := a.inside.wait(t, all[round]) // so that it's busy
		if st := read[message.State](t, before); st.State != message.Running {
			t.Fatalf("%s", show(st))
		}
		a.kill(t, syscall.SIGKILL)
		ran := 0
		for i, c := range all {
			if i == round {
				ran++
				continue
			}
			if r := a.inside.wait(t, c); r.Status == 200 && strings.Contains(string(r.Body), `"state":"running"`) {
				ran++
			}
		}
		for i := 0; ; i++ {
			st := submit(t, b.inside, of(fmt.Sprint("b", round, i), "thirty", invocation))
			if st.State == message.Denied {
				b.denied(t, st, "constraint")
				break
			}
			ran++
			end(t, b.inside, st.Call, `{"result":1}`)
		}
		if ran > 30 || ran < 10 { // what was counted and not answered is counted
			t.Errorf("%d calls ran, of 30", ran)
		}
		a = p.again(t)
	}
}

// What counts is a call that may run: none that is denied, cancelled while it waits, or rejected by a person.
func TestWhatCounts(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, counted+"[authorities.global]\ndeny = [\"hidden\"]\n")
	wait := func(id string) string { return waits(t, submit(t, s.inside, of(id, "asked", "i"))) }

	waiter := s.inside.begin(request("POST", message.Calls, of("cancelled", "asked", "i").with("wait_ms", 600000)))
	if !eventually(func() bool { return len(approvals(t, s.outside)) == 1 }) {
		t.Fatal("nobody is asked")
	}
	get[struct{}](t, s.inside, "POST", message.Calls+"/cancelled"+message.Cancel, nil)
	if st := read[message.State](t, s.inside.wait(t, waiter)); st.State != message.Denied {
		t.Errorf("a call that was cancelled: %s", show(st))
	}
	s.event(t, "approval", "what=withdrawn", "call=cancelled")
	decided(t, s, wait("rejected"), message.Deny)
	s.denied(t, after(t, s.inside, "rejected", time.Minute), "approval_denied")
	if n := len(approvals(t, s.outside)); n != 0 {
		t.Errorf("%d approvals wait", n)
	}

	first, second, third := wait("first"), wait("second"), wait("third")
	decided(t, s, first, message.AllowOnce)
	decided(t, s, second, message.AllowOnce)
	decided(t, s, third, message.AllowOnce)
	n := 0
	for _, id := range []string{"first", "second", "third"} {
		st := after(t, s.inside, id, time.Minute)
		if st.State == message.Running {
			n++
		} else {
			s.denied(t, st, "constraint")
		}
	}
	if n != 2 {
		t.Errorf("%d approved calls run, of two that may", n)
	}
	s.denied(t, submit(t, s.inside, of("fourth", "asked", "i")), "constraint") // a person isn't asked about it
}

// only_after is about calls whose result was reported.
func TestOnlyAfter(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, counted)
	s.denied(t, submit(t, s.inside, of("1", "commit", "i")), "constraint")
	runs(t, submit(t, s.inside, of("2", "fetch", "i")))
	s.denied(t, submit(t, s.inside, of("3", "commit", "i")), "constraint")
	end(t, s.inside, "2", `{"error":"offline"}`)
	s.denied(t, submit(t, s.inside, of("4", "commit", "i")), "constraint")
	runs(t, submit(t, s.inside, of("5", "fetch", "i")))
	get[struct{}](t, s.inside, "POST", message.Calls+"/5"+message.Cancel, nil)
	s.denied(t, submit(t, s.inside, of("6", "commit", "i")), "constraint")
	runs(t, submit(t, s.inside, of("7", "fetch", "i")))
	end(t, s.inside, "7", `{"result":1}`)
	runs(t, submit(t, s.inside, of("8", "commit", "i")))
	s.denied(t, submit(t, s.inside, of("9", "commit", "j")), "constraint") // another invocation
	other := p.again(t)
	runs(t, submit(t, other.inside, of("10", "commit", "i")))
}

// Counts that can't be read are an error, and nothing is reset.
func TestDamagedCounts(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, counted)
	runs(t, submit(t, s.inside, of("1", "ten", "i")))
	file := s.state("calls.json")
	good, err := os.ReadFile(file)
	must(t, err)
	for i, text := range []string{"", "{", "{}", string(good[:len(good)-5])} {
		must(t, os.WriteFile(file, []byte(text), 0o600))
		s.denied(t, submit(t, s.inside, of(fmt.Sprint("damaged ", i), "ten", "i")), "engine_error")
		if now, err := os.ReadFile(file); err != nil || string(now) != text {
			t.Errorf("%q, %v", now, err)
		}
	}
	must(t, os.WriteFile(file, good, 0o600))
	runs(t, submit(t, s.inside, of("2", "ten", "i")))
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}
