package denials

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
)

// The command line of an event has what the kernel reports, and a mark where it's truncated.
func TestArgvOf(t *testing.T) {
	for _, x := range []struct {
		text string
		argc uint32
		want []string
	}{
		{"true\x00", 1, []string{"true"}},
		{"true\x00\x00a b\x00", 3, []string{"true", "", "a b"}},
		{"true\x00a\x00", 3, []string{"true", "a", "…"}},
		{"true\x00aaa", 2, []string{"true", "aaa…"}},
		{"", 0, nil},
		{"", 1, []string{"…"}},
	} {
		if got := argvOf(&loader.Event{Args: x.text, Detail: x.argc}); !slices.Equal(got, x.want) {
			t.Errorf("%q of %d: %q, want %q", x.text, x.argc, got, x.want)
		}
	}
}

// Executions are no denials, and lost executions are no lost denials, whichever process reports them.
func TestExecsAreNoDenials(t *testing.T) {
	var e written
	queue := event.NewQueue(&e)
	d := NewCollector(Config{Policy: policyOf(t), Events: queue})
	d.Forward(event.Event{Kind: event.Exec, Target: "/usr/bin/true"})
	d.Forward(event.Event{Kind: event.Gap, Count: 7, Execs: 7, Extra: map[string]string{"why": "many"}})
	d.Forward(event.Event{Kind: event.Daemon})
	counts := loader.Counts{Unrecorded: 5}
	d.counts = func() loader.Counts { return counts }
	d.reportLosses()
	counts.Unrecorded = 6
	d.reportLosses()
	d.reportLosses()
	if r := d.Summary(); r.Total != 0 || r.Lost != 0 || r.WhyLost != "" || len(r.Denials) != 0 {
		t.Errorf("%+v", r)
	}
	d.Forward(event.Event{Kind: event.Gap, Count: 9, Execs: 7, Extra: map[string]string{"why": "more"}})
	if r := d.Summary(); r.Lost != 2 || r.WhyLost != "more" {
		t.Errorf("%+v", r)
	}
	if _, err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	emitted := ""
	for _, e := range e.events() {
		emitted += fmt.Sprintf("%s %d %d, ", e.Kind, e.Count, e.Execs)
	}
	if want := "exec 0 0, gap 7 7, daemon 0 0, gap 5 5, gap 1 1, gap 9 7, "; emitted != want {
		t.Errorf("emitted %q, want %q", emitted, want)
	}
}

// The parent of a program is known even if it has ended or executed another program before the event.
func TestExecutedChain(t *testing.T) {
	var e written
	queue := event.NewQueue(&e)
	h := NewFollower(Source{}, Config{Self: os.Getpid(), Policy: policyOf(t), Events: queue})
	const unused = 1 << 23 // above every PID
	exec := func(pid, parent int, file, args string) {
		h.receive(loader.Event{Op: loader.OpExec, PID: pid, Parent: loader.Parent{PID: parent, Comm: "gone"}, Detail: 2, Args: args, Asked: file, Paths: []loader.Asked{{Path: file}}})
	}
	exec(unused, os.Getpid(), "/bin/sh", "sh\x00--token=hunter2\x00")
	exec(unused, os.Getpid(), "/bin/make", "make\x00--token=hunter2\x00")
	exec(unused+1, unused, "/bin/true", "true\x00x\x00")
	exec(unused+3, unused+2, "/bin/true", "true\x00")
	if _, err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	list := e.events()
	if len(list) != 4 || len(list[1].Process) != 1 || list[1].Asked != "" {
		t.Fatalf("%+v", list)
	}
	last := list[2].Process
	if len(last) != 2 || last[0].Exe != "/bin/true" || last[1].Exe != "/bin/make" || strings.Contains(fmt.Sprint(last[1].Argv), "hunter2") {
		t.Errorf("%+v", last)
	}
	if last = list[3].Process; len(last) != 2 || last[1].PID != unused+2 || last[1].Comm != "gone" {
		t.Errorf("%+v", last)
	}
}
