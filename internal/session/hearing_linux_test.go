package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/policy"
)

// told notes under which policy each event was told.
type told []string

func (l *told) Write(e *event.Event) error {
	*l = append(*l, fmt.Sprintf("%s %s %d", e.Kind, e.Policy, e.Count))
	return nil
}

// Each refusal is told by the policy that decided, the filters' by the first one, and everything else by the one in force.
func TestHeardByGenerations(t *testing.T) {
	named := func(name string) *policy.Compiled {
		c := *listing(t)
		c.Name = name
		return &c
	}
	var events told
	queue := event.NewQueue(&events)
	first := named("first")
	h := newHearing(Heard{PID: 1, Policies: map[uint32]*policy.Compiled{First: first}}, Config{Policy: first, Events: queue})
	opened := loader.Event{Op: loader.OpOpen, Why: loader.WhyUnresolved, Layer: -1, Rule: -1, Paths: []loader.Asked{{Path: "/deep", Need: policy.Read}}}
	refused := func(generation uint32, k loader.Event) {
		k.Generation = generation
		h.refused(k)
	}
	refused(1, opened)
	h.Reloaded(2, named("second"))
	h.Reloaded(3, named("third"))
	refused(3, opened)
	refused(2, opened)
	refused(3, loader.Event{Op: loader.OpCall, Why: loader.WhyAlways, Detail: 1})
	h.Tell(event.Event{Kind: event.Daemon})
	h.Reloaded(4, named("fourth"))
	refused(2, opened) // nobody knows it any more
	if _, err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{
		"denial first 0", "denial third 0", "denial second 0", "denial first 0", "daemon third 0", "gap fourth 1",
	}; !slices.Equal(events, want) {
		t.Errorf("told %q, want %q", events, want)
	}
}

// A session's start tells the beginning of its command line.
func TestStartIsShort(t *testing.T) {
	r := &run{cmd: &command{}, cfg: Config{Policy: listing(t), Argv: []string{"sh", "-c", strings.Repeat("x", 1<<20)}}}
	if got := r.startEvent().Process[0].Argv; len(got) != 3 || len(got[2]) > 1<<13 || !strings.HasSuffix(got[2], "…") {
		t.Errorf("%d words of %.100q", len(got), got)
	}
}
