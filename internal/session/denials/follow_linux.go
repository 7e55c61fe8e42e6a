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

// Follower collects the denials of a session that another process started.
type Follower struct {
	*Collector
	session *loader.Session // in the kernel; nil: another Follower collects its denials

	// policies are the first, the former and the current one, by the generation of their image; nil: find finds them.
	policies map[uint32]*policy.Compiled
	find     func() (map[uint32]*policy.Compiled, error)
	used     bool       // used since the last call of evict
	waiting  []pending  // records that wait until the policies are found
	found    *sync.Cond // signals that waiting is empty
	ending   bool
}

// pending is a record that the policy of a generation decided.
type pending struct {
	generation uint32
	handle     func(*policy.Compiled)
}

// Source provides a session's policies.
type Source struct {
	Resumed  bool // another process followed the session before: it has reported the earlier losses
	Policies func() (map[uint32]*policy.Compiled, error)
}

// Follow begins to emit a session's events to cfg.Events. It uses only the name and the digest of cfg.Policy.
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

// NewFollower returns a Follower for the session's network alone (see ListenNetwork).
func NewFollower(source Source, cfg Config) *Follower {
	cfg.Mechanism, cfg.Others = "bpf", seccomp.Backend{ABI: seccomp.FullMediation, Sealed: seccomp.Sealed()}
	d := newCollector(cfg, 0)
	return &Follower{Collector: d, find: source.Policies, found: sync.NewCond(&d.mu)}
}

// receive handles a denial or an execution, which needs no policy.
func (f *Follower) receive(k loader.Event) {
	generation := k.Generation
	switch k.Op {
	case loader.OpExec:
		f.locked(func() { f.handleBPF(f.policy, k) })
		return
	case loader.OpCall:
		generation = api.FirstGeneration
	}
	f.handleBy(generation, func(c *policy.Compiled) { f.handleBPF(c, k) })
}

// maxWaiting bounds the records that wait for the policies: many times the capacity of the kernel's ring buffer.
const maxWaiting = 2000

// handleBy handles a record by the policy that decided, which may be a former one. The goroutine that reads the kernel's events doesn't wait for
// the policies, because the kernel's ring buffer is small.
func (f *Follower) handleBy(generation uint32, handle func(*policy.Compiled)) {
	f.locked(func() {
		for len(f.waiting) >= maxWaiting {
			f.found.Wait()
		}
		if f.policies == nil && !f.ending {
			if f.waiting = append(f.waiting, pending{generation, handle}); len(f.waiting) == 1 {
				go f.catchUp()
			}
			return
		}
		f.handlePending(pending{generation, handle}, f.load())
	})
}

// catchUp finds the policies, and handles the waiting records.
func (f *Follower) catchUp() {
	found, err := f.find()
	f.locked(func() {
		if err == nil {
			f.cache(found)
		}
		for _, p := range f.waiting {
			f.handlePending(p, err)
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

// handlePending handles a record; err is why the policies can't be found.
func (f *Follower) handlePending(p pending, err error) {
	if err != nil {
		f.gap("toolguardd", 1, fmt.Sprintf("its policy can't be read: %v", err), true)
		return
	}
	c := f.policies[p.generation]
	if c == nil {
		f.gap("toolguardd", 1, "its policy was removed: the session has newer ones", true)
		return
	}
	f.used = true
	p.handle(c)
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
		f.policy = &policy.Compiled{Name: c.Name, Digest: c.Digest} // all that events need of the policy in force
	})
}

// cacheTime is the minimum time that unused policies stay in memory. They are large, and most sessions have no denials.
const cacheTime = 5 * time.Second

// load finds the policies unless they are cached.
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

// evict frees the policies unless they were used since its last call.
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

// ClientExited reports that the toolguard that started the session has ended. A process of the session may reuse its PID.
func (f *Follower) ClientExited() {
	f.locked(func() { f.self = 0 })
}

// Emit emits an event of the session that isn't a denial.
func (f *Follower) Emit(e event.Event) {
	f.locked(func() { f.emit(f.about(e)) })
}

// ListenNetwork begins to collect the denials of the programs on the session's cgroup.
func (f *Follower) ListenNetwork(s *cgroupsock.Session) error {
	return f.listenNetwork(s, func(k cgroupsock.Event) {
		f.handleBy(k.Generation, func(c *policy.Compiled) { f.handleNetwork(c, k) })
	})
}

// EndNetwork collects the last network denials. endEgress ends egress. end ends the network; EndNetwork returns its counts.
func (f *Follower) EndNetwork(endEgress func(), end func() cgroupsock.Counts) cgroupsock.Counts {
	f.drain()
	endEgress()
	return f.Collector.EndNetwork(end)
}

// End ends the session in the kernel, and collects its last events.
func (f *Follower) End() loader.Counts {
	f.drain()
	return f.drainKernel(func() loader.Counts {
		if f.session == nil {
			return loader.Counts{}
		}
		counts, err := f.session.End()
		if err != nil {
			f.Warn("the session could not be removed from the kernel: %v", err)
		}
		f.session = nil
		return counts
	})
}

// drain waits until no record waits for policies. Later records are handled at once.
func (f *Follower) drain() {
	f.locked(func() {
		f.awaitPending()
		f.ending = true
	})
}
