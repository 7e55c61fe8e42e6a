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

// emitted records the kind, policy and count of each event.
type emitted []string

func (l *emitted) Write(e *event.Event) error {
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

// firstPolicy is the source of a session's first policy.
func firstPolicy(c *policy.Compiled) func() (map[uint32]*policy.Compiled, error) {
	return func() (map[uint32]*policy.Compiled, error) {
		return map[uint32]*policy.Compiled{api.FirstGeneration: c}, nil
	}
}

// Each denial is described by the policy that decided, one by the filters by the first policy, and other events by the one in force.
func TestFollowerByGeneration(t *testing.T) {
	named := func(name string) *policy.Compiled {
		c := *policyOf(t)
		c.Name = name
		return &c
	}
	var events emitted
	queue := event.NewQueue(&events)
	first := named("first")
	h := NewFollower(Source{Policies: firstPolicy(first)}, Config{Self: 1, Policy: first, Events: queue})
	opened := loader.Event{Op: loader.OpOpen, Why: loader.WhyUnresolved, Layer: -1, Rule: -1, Paths: []loader.Asked{{Path: "/deep", Need: policy.Read}}}
	deny := func(generation uint32, k loader.Event) {
		k.Generation = generation
		h.receive(k)
	}
	deny(1, opened)
	h.Reloaded(2, named("second"))
	h.Reloaded(3, named("third"))
	deny(3, opened)
	deny(2, opened)
	deny(3, loader.Event{Op: loader.OpCall, Why: loader.WhyAlways, Detail: 1})
	h.Emit(event.Event{Kind: event.Daemon})
	h.Reloaded(4, named("fourth"))
	deny(2, opened) // its policy was removed
	if _, err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	if want := []string{
		"denial first 0", "denial third 0", "denial second 0", "denial first 0", "daemon third 0", "gap fourth 1",
	}; !slices.Equal(events, want) {
		t.Errorf("emitted %q, want %q", events, want)
	}
}

// The policies are read at a denial, and stay in memory for a while after they were used. Further denials don't wait meanwhile. If the policies
// can't be read, a gap reports that.
func TestFollowerEvicts(t *testing.T) {
	c := *policyOf(t)
	c.Name = "found"
	synctest.Test(t, func(t *testing.T) {
		var events emitted
		queue := event.NewQueue(&events)
		looked, failed := 0, error(nil)
		h := NewFollower(Source{Policies: func() (map[uint32]*policy.Compiled, error) {
			looked++
			time.Sleep(time.Second)
			return map[uint32]*policy.Compiled{api.FirstGeneration: &c}, failed
		}}, Config{Self: 1, Policy: &policy.Compiled{Name: "named"}, Events: queue})
		deny := func(path string, want int) {
			began := time.Now()
			h.receive(loader.Event{
				Generation: api.FirstGeneration, Op: loader.OpOpen, Why: loader.WhyUnresolved, Layer: -1, Rule: -1,
				Paths: []loader.Asked{{Path: path, Need: policy.Read}},
			})
			synctest.Wait()
			if looked != want {
				t.Errorf("%s: read the policies %d times, want %d", path, looked, want)
			}
			if took := time.Since(began); took > 0 {
				t.Errorf("%s: the reader of the kernel's events waited for %v", path, took)
			}
		}
		h.Emit(event.Event{Kind: event.Daemon})
		deny("/one", 1)
		deny("/two", 1)
		for range 3 {
			time.Sleep(cacheTime * 4 / 5)
			deny("/again", 1)
		}
		time.Sleep(3 * cacheTime)
		failed = errors.New("gone")
		deny("/three", 2)
		deny("/four", 2)
		h.End()
		if _, err := queue.Close(); err != nil {
			t.Fatal(err)
		}
		want := []string{"daemon named 0", "denial found 0", "denial found 0", "denial found 0", "denial found 0", "denial found 0", "gap named 1", "gap named 1"}
		if !slices.Equal(events, want) {
			t.Errorf("emitted %q, want %q", events, want)
		}
	})
}

// The denials of the client itself aren't reported. Those of a process that reuses its PID are.
func TestFollowerOfReusedPID(t *testing.T) {
	var events emitted
	queue := event.NewQueue(&events)
	h := NewFollower(Source{Policies: func() (map[uint32]*policy.Compiled, error) {
		return map[uint32]*policy.Compiled{api.FirstGeneration: policyOf(t)}, nil
	}}, Config{Self: 7, Policy: &policy.Compiled{Name: "named"}, Events: queue})
	deny := func() {
		h.receive(loader.Event{
			Generation: api.FirstGeneration, PID: 7, Op: loader.OpOpen, Why: loader.WhyUnresolved, Layer: -1, Rule: -1,
			Paths: []loader.Asked{{Path: "/x", Need: policy.Read}},
		})
	}
	deny()
	h.Emit(event.Event{Kind: event.Daemon})
	h.locked(h.awaitPending)
	h.ClientExited()
	deny()
	h.End()
	if _, err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || events[0] != "daemon named 0" || !strings.HasPrefix(events[1], "denial ") {
		t.Errorf("emitted %q", events)
	}
}
