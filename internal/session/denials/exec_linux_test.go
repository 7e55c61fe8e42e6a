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

// Of a command line is told what the kernel tells, and that there's more.
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

// What was executed is no denial, and what isn't told of it is none that was lost, in whichever process they're told.
func TestExecsAreNoDenials(t *testing.T) {
	var e written
	queue := event.NewQueue(&e)
	d := NewCollector(Config{Policy: listing(t), Events: queue})
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
	said := ""
	for _, e := range e.events() {
		said += fmt.Sprintf("%s %d %d, ", e.Kind, e.Count, e.Execs)
	}
	if want := "exec 0 0, gap 7 7, daemon 0 0, gap 5 5, gap 1 1, gap 9 7, "; said != want {
		t.Errorf("told %q, want %q", said, want)
	}
}

// Who started a program is known also when it's gone, or something else, by the time that others are told of.
func TestExecutedChain(t *testing.T) {
	var e written
	queue := event.NewQueue(&e)
	h := NewFollower(Source{}, Config{Self: os.Getpid(), Policy: listing(t), Events: queue})
	const nobody = 1 << 23 // more than any process's number
	exec := func(pid, parent int, file, args string) {
		h.receive(loader.Event{Op: loader.OpExec, PID: pid, Parent: loader.Parent{PID: parent, Comm: "gone"}, Detail: 2, Args: args, Asked: file, Paths: []loader.Asked{{Path: file}}})
	}
	exec(nobody, os.Getpid(), "/bin/sh", "sh\x00--token=hunter2\x00")
	exec(nobody, os.Getpid(), "/bin/make", "make\x00--token=hunter2\x00")
	exec(nobody+1, nobody, "/bin/true", "true\x00x\x00")
	exec(nobody+3, nobody+2, "/bin/true", "true\x00")
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
	if last = list[3].Process; len(last) != 2 || last[1].PID != nobody+2 || last[1].Comm != "gone" {
		t.Errorf("%+v", last)
	}
}
