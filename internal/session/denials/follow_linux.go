package denials

import (
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// Follower makes events of what is denied in a session that another process started.
type Follower struct {
	*Collector
	session *loader.Session // in the kernel; nil: another Follower follows that

	// policies are the session's first, and those in force now and before, by the generation of their image; nil: find finds them.
	policies map[uint32]*policy.Compiled
	find     func() (map[uint32]*policy.Compiled, error)
	used     bool       // since evict was called last
	waiting  []pending  // until the policies are found
	found    *sync.Cond // nothing waits any more
	ending   bool
}

// pending is a record that the policy of a generation decided.
type pending struct {
	generation uint32
	take       func(*policy.Compiled)
}

// Source is where a session's policies are, and whether another process followed it.
type Source struct {
	Resumed  bool // another process followed the session until now: it reported what the kernel had lost, or missed it
	Policies func() (map[uint32]*policy.Compiled, error)
}

// Follow begins to emit a session's events to cfg.Events. Of cfg.Policy only the name and the digest are used.
func Follow(s *loader.Session, source Source, cfg Config) *Follower {
	f := NewFollower(source, cfg)
	f.session, f.counts = s, s.Counts
	if source.Resumed {
		before := s.Counts()
		f.lossesReported, f.unrecorded = before.Lost+before.Suppressed, before.Unrecorded
	}
	s.Listen(f.receive)
	return f
}

// NewFollower is a Follower for the session's network alone (see ListenNetwork).
func NewFollower(source Source, cfg Config) *Follower {
	cfg.Mechanism, cfg.Others = "bpf", seccomp.Backend{ABI: seccomp.FullMediation, Sealed: seccomp.Sealed()}
	d := newCollector(cfg, 0)
	return &Follower{Collector: d, find: source.Policies, found: sync.NewCond(&d.mu)}
}

// receive takes a denial in, or a program that was executed: that takes no policy.
func (f *Follower) receive(k loader.Event) {
	generation := k.Generation
	switch k.Op {
	case loader.OpExec:
		f.locked(func() { f.take(f.policy, k) })
		return
	case loader.OpCall:
		generation = api.FirstGeneration
	}
	f.takeBy(generation, func(c *policy.Compiled) { f.take(c, k) })
}

// maxWaiting is how many records wait while the policies are looked for: many times what the kernel has capacity for.
const maxWaiting = 2000

// takeBy takes a record in by the policy that decided, which needn't be the one in force any more. The goroutine that reads the kernel's events
// doesn't wait for the policies: the kernel has little capacity for more events.
func (f *Follower) takeBy(generation uint32, take func(*policy.Compiled)) {
	f.locked(func() {
		for len(f.waiting) >= maxWaiting {
			f.found.Wait()
		}
		if f.policies == nil && !f.ending {
			if f.waiting = append(f.waiting, pending{generation, take}); len(f.waiting) == 1 {
				go f.catchUp()
			}
			return
		}
		f.takePending(pending{generation, take}, f.load())
	})
}

// catchUp finds the policies, and takes in what has waited for them.
func (f *Follower) catchUp() {
	found, err := f.find()
	f.locked(func() {
		if err == nil {
			f.cache(found)
		}
		for _, p := range f.waiting {
			f.takePending(p, err)
		}
		f.waiting = nil
		f.found.Broadcast()
	})
}

// awaitPending waits until no record waits.
func (f *Follower) awaitPending() {
	for len(f.waiting) > 0 {
		f.found.Wait()
	}
}

// takePending takes a record in; err is why the policies can't be found.
func (f *Follower) takePending(p pending, err error) {
	if err != nil {
		f.gap("toolguardd", 1, fmt.Sprintf("its policy can't be looked at: %v", err), true)
		return
	}
	c := f.policies[p.generation]
	if c == nil {
		f.gap("toolguardd", 1, "its policy isn't known any more: the session has got others since", true)
		return
	}
	f.used = true
	p.take(c)
}

// locked runs a function while nothing else uses the Follower.
func (f *Follower) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// Reloaded sets the session's policy. Denials by the one before are described until the next Reloaded.
func (f *Follower) Reloaded(generation uint32, c *policy.Compiled) {
	f.locked(func() {
		f.awaitPending()
		if f.load() != nil {
			f.policies = map[uint32]*policy.Compiled{}
		}
		maps.DeleteFunc(f.policies, func(g uint32, _ *policy.Compiled) bool { return g != api.FirstGeneration && g+1 < generation })
		f.policies[generation] = c
		f.policy = &policy.Compiled{Name: c.Name, Digest: c.Digest} // which all events have
	})
}

// cacheTime is how long the policies are kept, at least, after they were used. They take much memory, and in most sessions nothing
// is denied.
const cacheTime = 5 * time.Second

// load finds the policies, unless they are cached.
func (f *Follower) load() error {
	if f.policies != nil {
		return nil
	}
	found, err := f.find()
	if err == nil {
		f.cache(found)
	}
	return err
}

func (f *Follower) cache(found map[uint32]*policy.Compiled) {
	f.policies, f.used = maps.Clone(found), false
	time.AfterFunc(cacheTime, f.evict)
}

// evict frees the policies, unless they were used since it was called last.
func (f *Follower) evict() {
	f.locked(func() {
		if !f.used {
			f.policies = nil
			return
		}
		f.used = false
		time.AfterFunc(cacheTime, f.evict)
	})
}

// ClientExited reports that the toolguard that started the session has ended. A process of the session may get its number.
func (f *Follower) ClientExited() {
	f.locked(func() { f.self = 0 })
}

// Emit emits an event of the session that isn't a denial.
func (f *Follower) Emit(e event.Event) {
	f.locked(func() { f.emit(f.about(e)) })
}

// ListenNetwork begins to collect what the programs on the session's cgroup deny.
func (f *Follower) ListenNetwork(s *cgroupsock.Session) error {
	return f.listenNetwork(s, func(k cgroupsock.Event) {
		f.takeBy(k.Generation, func(c *policy.Compiled) { f.takeNetwork(c, k) })
	})
}

// EndNetwork collects the last of it. endEgress ends what else reports; end ends the network, and returns what was counted there.
func (f *Follower) EndNetwork(endEgress func(), end func() cgroupsock.Counts) cgroupsock.Counts {
	f.drain()
	endEgress()
	return f.Collector.EndNetwork(end)
}

// End ends the session in the kernel, after all that happened in it has been reported.
func (f *Follower) End() loader.Counts {
	f.drain()
	return f.drainKernel(func() loader.Counts {
		if f.session == nil {
			return loader.Counts{}
		}
		counts, err := f.session.End()
		if err != nil {
			f.Warn("the session could not be taken out of the kernel: %v", err)
		}
		f.session = nil
		return counts
	})
}

// drain waits until no record waits, and none does from now on: what comes later is described at once.
func (f *Follower) drain() {
	f.locked(func() {
		f.awaitPending()
		f.ending = true
	})
}
