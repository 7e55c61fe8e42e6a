package denials

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolguard/toolguard/internal/api"
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

// written has the events that were emitted. A collector may emit repeated denials after its test, from a timer.
type written struct {
	mu   sync.Mutex
	list []event.Event
}

func (w *written) Write(e *event.Event) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, *e)
	return nil
}

// events returns what was emitted so far.
func (w *written) events() []event.Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.list)
}

// finding finds a policy that is a session's first.
func finding(c *policy.Compiled) func() (map[uint32]*policy.Compiled, error) {
	return func() (map[uint32]*policy.Compiled, error) {
		return map[uint32]*policy.Compiled{api.FirstGeneration: c}, nil
	}
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
	h := NewFollower(Source{Policies: finding(first)}, Config{Self: 1, Policy: first, Events: queue})
	opened := loader.Event{Op: loader.OpOpen, Why: loader.WhyUnresolved, Layer: -1, Rule: -1, Paths: []loader.Asked{{Path: "/deep", Need: policy.Read}}}
	refused := func(generation uint32, k loader.Event) {
		k.Generation = generation
		h.receive(k)
	}
	refused(1, opened)
	h.Reloaded(2, named("second"))
	h.Reloaded(3, named("third"))
	refused(3, opened)
	refused(2, opened)
	refused(3, loader.Event{Op: loader.OpCall, Why: loader.WhyAlways, Detail: 1})
	h.Emit(event.Event{Kind: event.Daemon})
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

// The policies are kept for a while after they were used, looked for when something is refused, while which more may be refused, and that
// they can't be found is told.
func TestHearingForgets(t *testing.T) {
	c := *listing(t)
	c.Name = "found"
	synctest.Test(t, func(t *testing.T) {
		var events told
		queue := event.NewQueue(&events)
		looked, failed := 0, error(nil)
		h := NewFollower(Source{Policies: func() (map[uint32]*policy.Compiled, error) {
			looked++
			time.Sleep(time.Second)
			return map[uint32]*policy.Compiled{api.FirstGeneration: &c}, failed
		}}, Config{Self: 1, Policy: &policy.Compiled{Name: "named"}, Events: queue})
		refused := func(path string, want int) {
			began := time.Now()
			h.receive(loader.Event{
				Generation: api.FirstGeneration, Op: loader.OpOpen, Why: loader.WhyUnresolved, Layer: -1, Rule: -1,
				Paths: []loader.Asked{{Path: path, Need: policy.Read}},
			})
			synctest.Wait()
			if looked != want {
				t.Errorf("%s: looked for the policies %d times, want %d", path, looked, want)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: who reads the kernel's events waited for %v", path, took)
			}
		}
		h.Emit(event.Event{Kind: event.Daemon})
		refused("/one", 1)
		refused("/two", 1)
		for range 3 {
			time.Sleep(cacheTime * 4 / 5)
			refused("/again", 1)
		}
		time.Sleep(3 * cacheTime)
		failed = errors.New("gone")
		refused("/three", 2)
		refused("/four", 2)
		h.End()
		if _, err := queue.Close(); err != nil {
			t.Fatal(err)
		}
		want := []string{"daemon named 0", "denial found 0", "denial found 0", "denial found 0", "denial found 0", "denial found 0", "gap named 1", "gap named 1"}
		if !slices.Equal(events, want) {
			t.Errorf("told %q, want %q", events, want)
		}
	})
}

// A toolguard's own refusals aren't told, but for what gets its number once it has gone.
func TestHearingOfANumber(t *testing.T) {
	var events told
	queue := event.NewQueue(&events)
	h := NewFollower(Source{Policies: func() (map[uint32]*policy.Compiled, error) {
		return map[uint32]*policy.Compiled{api.FirstGeneration: listing(t)}, nil
	}}, Config{Self: 7, Policy: &policy.Compiled{Name: "named"}, Events: queue})
	refuse := func() {
		h.receive(loader.Event{
			Generation: api.FirstGeneration, PID: 7, Op: loader.OpOpen, Why: loader.WhyUnresolved, Layer: -1, Rule: -1,
			Paths: []loader.Asked{{Path: "/x", Need: policy.Read}},
		})
	}
	refuse()
	h.Emit(event.Event{Kind: event.Daemon})
	h.locked(h.awaitPending)
	h.ClientExited()
	refuse()
	h.End()
	if _, err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || events[0] != "daemon named 0" || !strings.HasPrefix(events[1], "denial ") {
		t.Errorf("told %q", events)
	}
}
