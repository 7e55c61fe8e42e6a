//go:build linux

package calls

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/tool/message"
)

// Those who watch learn of each new approval and of each decision, in this order. One that doesn't read its answers keeps nobody waiting.
func TestWatch(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking)
	mute := p.person(t, s.socket)
	watch := func(since uint64) order {
		return request("GET", fmt.Sprintf("%s?since=%d&wait_ms=600000", message.Approvals, since), nil)
	}
	if n := *read[int](t, mute.do(t, order{Trick: "connect", Count: 20, Text: "GET " + message.Approvals + "?since=0&wait_ms=600000 HTTP/1.1\r\nHost: x\r\n\r\n"})); n != 20 {
		t.Fatalf("%d watchers that don't read", n)
	}
	version := uint64(0)
	for i := range 10 {
		waiting := s.outside.begin(watch(version))
		call := fmt.Sprint(i)
		id := waits(t, submit(t, s.inside, bash(call, "id "+call)))
		list := read[message.List](t, s.outside.wait(t, waiting))
		if len(list.Approvals) != 1 || list.Approvals[0].ID != id || list.Approvals[0].Resolved != 0 || list.Version <= version {
			t.Fatalf("new: %s", show(list))
		}
		version = list.Version
		waiting = s.outside.begin(watch(version))
		d := []string{message.AllowOnce, message.Deny}[i%2]
		decided(t, s, id, d)
		list = read[message.List](t, s.outside.wait(t, waiting))
		if len(list.Approvals) != 1 || list.Approvals[0].ID != id || list.Approvals[0].Decision == nil || *list.Approvals[0].Decision != d || list.Approvals[0].ResolvedBy == nil {
			t.Fatalf("decided: %s", show(list))
		}
		version = list.Version
	}
	list := get[message.List](t, s.outside, "GET", message.Approvals+"?since=0", nil)
	if len(list.Approvals) != 10 || list.Version != version {
		t.Errorf("%s", show(list))
	}
	if list := get[message.List](t, s.outside, "GET", fmt.Sprintf("%s?since=%d&wait_ms=100", message.Approvals, version), nil); len(list.Approvals) != 0 || list.Version != version {
		t.Errorf("without a change: %s", show(list))
	}
	fails(t, s.outside, 400, "GET", message.Approvals+"?since=x", nil)
}

// A decision reaches the one who waits for it soon. The times are printed; the limit is that of a very busy machine.
func TestLatency(t *testing.T) {
	p := newFixture(t, ordinary())
	s := p.start(t, asking)
	var took []time.Duration
	for i := range 50 {
		call := fmt.Sprint(i)
		id := waits(t, submit(t, s.inside, bash(call, "id")))
		waiting := s.inside.begin(request("GET", message.Approvals+"/"+id+message.Decision+"?wait_ms=600000", nil))
		began := time.Now()
		if r := decide(t, s.outside, id, message.AllowOnce); r.Status != 200 {
			t.Fatalf("%+v", r)
		}
		if d := read[message.Decided](t, s.inside.wait(t, waiting)); d.Decision == nil || *d.Decision != message.AllowOnce {
			t.Fatalf("%s", show(d))
		}
		took = append(took, time.Since(began))
		runs(t, after(t, s.inside, call, time.Minute))
		end(t, s.inside, call, `{"result":1}`)
	}
	slices.Sort(took)
	t.Logf("from a decision to its waiter: median %s, at most %s", took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > 2*time.Second {
		t.Errorf("the median is %s", took[len(took)/2])
	}
}
