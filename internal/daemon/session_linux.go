package daemon

import (
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/daemon/forward"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/network"
)

// record is the contents of a session's file: the state that is neither in the kernel nor a policy.
type record struct {
	Number     uint64
	From       uint64    // the outer session; 0: none
	Start      api.Start // without the policy
	Info       api.Session
	Client     uint64 // the start time of the toolguard that started it
	Mounts     uint32 // its mount namespace
	Thread     int    // the client's thread in it
	Lines      int    // of its images, the former one included, which keeps its capacity until the next reload
	Latest     int    // of them, those of the image in force
	Size       int    // of the request with its policy
	StoredSize int    `json:"Held"` // of the requests with the stored policies, the outer sessions' included
	Flags      loader.Flags
	Sockets    loader.Flags   // the flags that it has because its network is enforced
	Net        *networkRecord // nil: toolguardd doesn't enforce its network
	Generation uint32         // of the policy in force
	Sizes      map[uint32]int // the part of each stored policy in StoredSize, by generation
}

// session is a session that this toolguardd owns.
type session struct {
	d             *Daemon
	id            string
	number        uint64
	from          uint64
	lines         atomic.Int64
	size          atomic.Int64
	uid           int
	began         time.Time
	lingers       bool
	limits        policy.Limits
	flags         loader.Flags
	mounts        uint32         // its mount namespace
	network       *networkRecord // nil: toolguardd doesn't enforce its network
	kernel        *loader.Session
	group         atomic.Pointer[managed.Group] // nil: it has none yet
	noGroup       atomic.Pointer[error]         // why it has none
	groupComplete atomic.Bool                   // all of its processes are in its cgroup
	client        *proc.Process
	bundle        []byte // of its certificate authority, for its toolguard
	events        *event.Queue
	calls         forward.Conns
	ended         chan struct{} // closed when the client reports the end of its command
	killed        chan struct{} // closed when the session is to be killed
	over          chan struct{} // closed when it has ended
	stop          func()        // closes killed, once
	dropped       func()        // closes ended, once

	changing sync.Mutex // locked while the session is changed, which may take long; locked before mu; an ending session isn't changed
	finding  sync.Mutex // locked while the policies are read; locked before mu

	mu      sync.Mutex // locked for moments
	record  record
	recent  weak.Pointer[policies] // rarely needed once the session has begun
	state   api.State
	denials *denials.Follower // nil: no thread is in it yet
	net     *network.Managed  // nil: it isn't enforced, or no longer
	owner   *follower         // the client's subscription; nil: none
	exit    *event.Exit
	end     api.End
}

func (d *Daemon) newSession(r *record, client *proc.Process) *session {
	s := &session{
		d: d, id: r.Info.ID, number: r.Number, from: r.From, uid: r.Info.UID, began: r.Info.Started,
		lingers: r.Start.Linger, limits: r.Start.Limits, flags: r.Flags, mounts: r.Mounts, network: r.Net, client: client, state: r.Info.State,
		ended: make(chan struct{}), killed: make(chan struct{}), over: make(chan struct{}), record: *r,
	}
	s.lines.Store(int64(r.Lines))
	s.size.Store(int64(r.StoredSize))
	s.stop = sync.OnceFunc(func() { close(s.killed) })
	s.dropped = sync.OnceFunc(func() { close(s.ended) })
	s.events = event.NewQueue(sink(s.publish))
	return s
}

func (s *session) quotaKey() peer.QuotaKey { return peer.QuotaKey{UID: s.uid, Confined: s.from != 0} }

// publish sends an event to its subscribers. The client of an outer session gets the denials, gaps and executed programs.
func (s *session) publish(e *event.Event) error {
	s.d.hub.publish(s.uid, e)
	if e.Kind == event.SessionStart || e.Kind == event.SessionEnd { // the client emits these itself
		return nil
	}
	s.notifyOwner(e)
	for from := s.from; from != 0 && (e.Kind == event.Denial || e.Kind == event.Gap || e.Kind == event.Exec); {
		outer, err := s.d.session(from)
		if err != nil {
			break
		}
		outer.notifyOwner(e)
		from = outer.from
	}
	return nil
}

func (s *session) notifyOwner(e *event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != nil {
		s.owner.queue.Write(e)
	}
}

// info is the session as the API shows it, without its usage.
func (s *session) info() api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.record.Info
	info.State, info.Calls = s.state, s.calls.IsServed()
	if !s.isOver() {
		c := s.kernel.Counts()
		info.Tasks, info.Denied, info.Unreported = c.Living, c.Denied, c.Suppressed+c.Lost
	}
	if s.net != nil {
		c := s.net.Counts()
		info.Denied, info.Unreported = info.Denied+c.Denied, info.Unreported+c.Suppressed+c.Lost
	}
	if g := s.group.Load(); g != nil {
		info.Cgroup = g.Path()
	}
	return info
}

// infoWithUsage is the session as the API shows it.
func (s *session) infoWithUsage() api.Session {
	info := s.info()
	info.Usage = s.usage()
	return info
}

func (s *session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

func (s *session) currentState() api.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// change changes the record, after its file. The caller has locked changing.
func (s *session) change(f func(*record)) error {
	r := s.record
	f(&r)
	if err := s.d.save(&r); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.record = r
	return nil
}

// denialSource gives package denials access to the session's policies.
func (s *session) denialSource() denials.Source {
	return denials.Source{Policies: func() (map[uint32]*policy.Compiled, error) {
		p, err := s.policies()
		if err != nil {
			return nil, err
		}
		return p.all, nil
	}}
}

// denialsConfig is what the events of denials depend on, by the policy in force.
func (s *session) denialsConfig(c *policy.Compiled) denials.Config {
	st := &s.record.Start
	cfg := denials.Config{Session: s.number, Policy: c, Tool: st.Tool, Agent: st.Agent, Events: s.events, Warn: s.d.note}
	if s.from == 0 { // the toolguard of a nested session is confined itself, and its denials are reported
		cfg.Self = s.client.PID
	}
	return cfg
}

// followDenials starts to report denials; resumed: a former toolguardd did so before.
func (s *session) followDenials(resumed bool) {
	source := s.denialSource()
	source.Resumed = resumed
	info := &s.record.Info
	s.denials = denials.Follow(s.kernel, source, s.denialsConfig(&policy.Compiled{Name: info.Policy, Digest: info.Digest}))
}

// serveOwner sends events to the client until the session is over, or its command has ended and other processes continue, or done is
// closed: the client is gone.
func (s *session) serveOwner(f *follower, begin func(), done <-chan struct{}) (end api.End, over bool) {
	var left <-chan struct{}
	if s.lingers {
		left = s.ended
	}
	s.mu.Lock()
	s.owner = f
	s.mu.Unlock()
	begin()
	select {
	case <-s.over:
		over = true
	case <-left:
		over = true
	case <-done:
	case <-s.d.stopping:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner == f {
		s.owner = nil
	}
	return s.end, over
}
