package session

import (
	"net/netip"
	"os"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/egress/link"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// heardNames is what is told of what egress refused.
func heardNames(t *testing.T, denials ...link.Denial) []event.Event {
	t.Helper()
	var e elsewhere
	queue := event.NewQueue(&e)
	c := listing(t)
	h := newHearing(Heard{PID: 1, Policies: finding(c)}, Config{Policy: c, Events: queue})
	for i := range denials {
		h.run.denials.refusedByName(&denials[i])
	}
	if _, err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	return e.told
}

// Whom the kernel saw is described by what /proc says of him, unless another has his number since.
func TestChainSince(t *testing.T) {
	own, err := os.Executable()
	must(t, err)
	for since, exe := range map[time.Duration]string{time.Since(booted()): own, time.Nanosecond: ""} {
		told := heardNames(t, link.Denial{By: link.Process{PID: os.Getpid(), UID: 7, Comm: "worker", Since: since}})
		if len(told) != 1 || len(told[0].Process) == 0 {
			t.Fatalf("%+v", told)
		}
		chain := told[0].Process
		if p := chain[0]; p.Exe != exe || p.PID != os.Getpid() || p.UID != 7 || p.Comm != "worker" || (len(p.Argv) > 0) != (exe != "") || p.Start.IsZero() != (exe == "") {
			t.Errorf("seen after %s: %+v", since, p)
		}
		if others := len(chain) > 1; others != (exe != "") {
			t.Errorf("seen after %s: it's a child of %+v", since, chain[1:])
		}
	}
	if told := heardNames(t, link.Denial{}); len(told) != 1 || told[0].Process != nil {
		t.Errorf("of nobody: %+v", told)
	}
}

// What the report lists has no secrets in it, as events haven't.
func TestListedClean(t *testing.T) {
	d := newDenials(newHearing(Heard{PID: 1}, Config{Policy: listing(t)}).run, nil, 1)
	d.refusedByName(&link.Denial{Answer: policy.Answer{Target: "http://example.com/a;jsessionid=canary"}})
	if got := d.list[0].Target; got != "http://example.com/a;jsessionid=***" {
		t.Error(got)
	}
}

// Only what differs in nothing that is told is counted together.
func TestNamedAlike(t *testing.T) {
	denial := func(to string, pid int) link.Denial {
		return link.Denial{To: netip.MustParseAddrPort(to), Client: netip.MustParseAddrPort("127.0.0.1:4711"), By: link.Process{PID: pid, Comm: "scan"}, Protocol: "tls"}
	}
	again := denial("192.0.2.1:443", 4)
	again.Client = netip.MustParseAddrPort("127.0.0.1:4712")
	told := heardNames(t, denial("192.0.2.1:443", 4), denial("169.254.169.254:443", 4), denial("192.0.2.1:443", 5), again)
	if len(told) != 3 || told[1].Extra["to"] != "169.254.169.254:443" || told[2].Process[0].PID != 5 {
		t.Errorf("%+v", told)
	}
}
