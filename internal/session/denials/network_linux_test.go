package denials

import (
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/proc"
)

// byName returns the events of denials by egress.
func byName(t *testing.T, denials ...message.Denial) []event.Event {
	t.Helper()
	var e written
	queue := event.NewQueue(&e)
	c := policyOf(t)
	h := NewFollower(Source{Policies: firstPolicy(c)}, Config{Self: 1, Policy: c, Events: queue})
	for i := range denials {
		h.DeniedByName(&denials[i])
	}
	if _, err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	return e.events()
}

// A process that the kernel saw is described by /proc, unless another one has reused its PID.
func TestChainSince(t *testing.T) {
	own, err := os.Executable()
	childtest.Must(t, err)
	for since, exe := range map[time.Duration]string{time.Since(proc.Booted()): own, time.Nanosecond: ""} {
		events := byName(t, message.Denial{Process: event.Observed{PID: os.Getpid(), UID: 7, Comm: "worker", SeenAt: since}})
		if len(events) != 1 || len(events[0].Process) == 0 {
			t.Fatalf("%+v", events)
		}
		chain := events[0].Process
		if p := chain[0]; p.Exe != exe || p.PID != os.Getpid() || p.UID != 7 || p.Comm != "worker" || (len(p.Argv) > 0) != (exe != "") || p.Start.IsZero() != (exe == "") {
			t.Errorf("seen after %s: %+v", since, p)
		}
		if others := len(chain) > 1; others != (exe != "") {
			t.Errorf("seen after %s: its ancestors are %+v", since, chain[1:])
		}
	}
	if events := byName(t, message.Denial{}); len(events) != 1 || events[0].Process != nil {
		t.Errorf("without a process: %+v", events)
	}
}

// The report contains no secrets, like the events.
func TestListedClean(t *testing.T) {
	d := NewCollector(Config{Self: 1, Policy: policyOf(t)})
	d.DeniedByName(&message.Denial{Answer: explain.Answer{Target: "http://example.com/a;jsessionid=canary"}})
	if got := d.list[0].Target; got != "http://example.com/a;jsessionid=***" {
		t.Error(got)
	}
}

// Denials are counted together only if their events are equal.
func TestNamedAlike(t *testing.T) {
	denial := func(to string, pid int) message.Denial {
		return message.Denial{To: netip.MustParseAddrPort(to), Client: netip.MustParseAddrPort("127.0.0.1:4711"), Process: event.Observed{PID: pid, Comm: "scan"}, Protocol: "tls"}
	}
	again := denial("192.0.2.1:443", 4)
	again.Client = netip.MustParseAddrPort("127.0.0.1:4712")
	events := byName(t, denial("192.0.2.1:443", 4), denial("169.254.169.254:443", 4), denial("192.0.2.1:443", 5), again)
	if len(events) != 3 || events[1].Extra["to"] != "169.254.169.254:443" || events[2].Process[0].PID != 5 {
		t.Errorf("%+v", events)
	}
}

// If a process outside the session listens on a port, the rule that grants free ports doesn't deny: the advice names it.
func TestTakenPort(t *testing.T) {
	l := policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{{
		Host: "localhost", Listen: true, Allow: true, Position: policy.Position{File: "p.toml", Line: 7},
	}}}
	c := nettest.Policy(t, l)
	k := cgroupsock.Event{Op: cgroupsock.OpBind, Why: cgroupsock.WhyTaken, Protocol: unix.IPPROTO_TCP, At: netip.MustParseAddrPort("127.0.0.1:5432")}
	for _, rule := range []int{slices.IndexFunc(c.Rules, func(r *policy.Rule) bool { return r.ID == "net.1" }), -1} {
		k.Rule = rule
		e := Describe(&Config{}, c, &k, nil)
		if e.Rule != "" || e.Suggest != "" || e.Reason != "host_not_listed" || e.Errno != "EADDRINUSE" || e.Target != "tcp://127.0.0.1:5432" ||
			!strings.Contains(e.Extra["why"], "outside the session") || strings.Contains(e.Extra["advice"], "net.1 (p.toml:7") != (rule >= 0) {
			t.Errorf("%+v", e)
		}
	}
}
