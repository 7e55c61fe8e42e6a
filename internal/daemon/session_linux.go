package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/network"
)

// record is what a session's file holds: all that isn't in the kernel, but the policies.
type record struct {
	Number     uint64
	From       uint64    // the session that it narrows; 0: none
	Start      api.Start // without the policy
	Info       api.Session
	Client     uint64 // when the toolguard that started it began
	Mounts     uint32 // the mount namespace that it sees files in
	Thread     int    // that was put into it
	Lines      int    // of its images: of the one before, too, which keeps its room until the next one comes
	Latest     int    // of them, those of the image in force
	Size       int    // of the request that brought its policy
	Held       int    // of those that brought the policies that are kept, with those of the sessions around it, whose rules these have too
	Flags      loader.Flags
	Sockets    loader.Flags   // of these, those that it has since its network is held
	Net        *networkRecord // nil: toolguardd doesn't hold its network
	Generation uint32         // of the policy in force
	Sizes      map[uint32]int // of Held, what each policy takes that is kept, by generation
}

// policies are a session's. Each is in a file of its own, which doesn't change, in the session's folder.
type policies struct {
	asked   *policy.Compiled // what the one in force is, without those of the sessions around it, and the host's
	size    int              // of the request that brought it
	inForce *policy.Compiled
	all     map[uint32]*policy.Compiled // the first, and those in force now and before, by generation
}

// fill is for the next policy, with an image of so many lines, by a request of so many bytes within others of so many. The image before
// keeps its room; the policy before is kept, and the first.
func (r *record) fill(lines, size, around int) {
	before := r.Sizes
	r.Sizes = map[uint32]int{r.Generation + 1: size + around}
	for _, kept := range []uint32{api.FirstGeneration, r.Generation} {
		if n, ok := before[kept]; ok {
			r.Sizes[kept] = n
		}
	}
	r.Lines, r.Latest, r.Size, r.Held = r.Latest+lines, lines, size, 0
	for _, n := range r.Sizes {
		r.Held += n
	}
}

// session is a session that this toolguardd owns.
type session struct {
	d       *Daemon
	id      string
	number  uint64
	from    uint64
	lines   atomic.Int64
	size    atomic.Int64
	uid     int
	began   time.Time
	lingers bool
	limits  policy.Limits
	flags   loader.Flags
	mounts  uint32         // the mount namespace that it sees files in
	network *networkRecord // nil: toolguardd doesn't hold its network
	kernel  *loader.Session
	group   atomic.Pointer[managed.Group] // nil: it has none yet
	noGroup atomic.Pointer[error]         // why it gets none
	whole   atomic.Bool                   // all of its processes are there
	client  *proc.Process
	bundle  []byte // of its certificate authority, for its toolguard
	events  *event.Queue
	ended   chan struct{} // closed when the client says so
	killed  chan struct{} // closed when it's to end
	over    chan struct{} // closed when nothing of it is left
	stop    func()        // closes killed, once
	dropped func()        // closes ended, once

	changing sync.Mutex // held by who changes the session, which may take long, also beyond mu; nothing changes one that ends
	finding  sync.Mutex // held by who looks for the policies, beyond mu, too

	mu      sync.Mutex // held for moments: whoever looks doesn't wait
	record  record
	recent  weak.Pointer[policies] // few need them once the session has begun
	state   api.State
	denials *denials.Follower // nil: nobody is in it yet
	net     *network.Managed  // nil: it's not held, or not any more
	owner   *follower         // the client's queue; nil: it doesn't listen
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
	s.size.Store(int64(r.Held))
	s.stop = sync.OnceFunc(func() { close(s.killed) })
	s.dropped = sync.OnceFunc(func() { close(s.ended) })
	s.events = event.NewQueue(sink(s.publish))
	return s
}

// policies are in memory as long as somebody uses them, and else in their files. Nobody changes them.
func (s *session) policies() (*policies, error) {
	s.finding.Lock()
	defer s.finding.Unlock()
	s.mu.Lock()
	recent, r := s.recent.Value(), s.record // whoever gives it another policy has these
	s.mu.Unlock()
	if recent != nil {
		return recent, nil
	}
	done, err := s.d.reading(context.Background())
	if err != nil {
		return nil, err
	}
	defer done()
	found, err := s.d.loadPolicies(&r)
	if err != nil {
		return nil, fmt.Errorf("look at what session %s is held to: %w", s.id, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent = weak.Make(found)
	return found, nil
}

func (s *session) asker() asker { return asker{s.uid, s.from != 0} }

// publish hands an event of the session's to all who may know of it: who started a session around it is told what is refused and executed in it.
func (s *session) publish(e *event.Event) error {
	s.d.hub.publish(s.uid, e)
	if e.Kind == event.SessionStart || e.Kind == event.SessionEnd { // its toolguard tells these itself
		return nil
	}
	s.tell(e)
	for from := s.from; from != 0 && (e.Kind == event.Denial || e.Kind == event.Gap || e.Kind == event.Exec); {
		outer, err := s.d.session(from)
		if err != nil {
			break
		}
		outer.tell(e)
		from = outer.from
	}
	return nil
}

func (s *session) tell(e *event.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.owner != nil {
		s.owner.queue.Write(e)
	}
}

// look is the session as it can be looked at.
func (s *session) look() api.Session {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := s.record.Info
	info.State = s.state
	if !s.isOver() {
		c := s.kernel.Counts()
		info.Tasks, info.Denied, info.Untold = c.Living, c.Denied, c.Suppressed+c.Lost
	}
	if s.net != nil {
		c := s.net.Counts()
		info.Denied, info.Untold = info.Denied+c.Denied, info.Untold+c.Suppressed+c.Lost
	}
	if g := s.group.Load(); g != nil {
		info.Cgroup = g.Path()
	}
	return info
}

// show is the session as people look at it.
func (s *session) show() api.Session {
	info := s.look()
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

// enter has the kernel put a thread of the client's into the session at the next thing that it does.
func (s *session) enter(thread int) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.now() != api.Starting || s.record.Thread != 0 {
		return refuse(409, "a thread has entered this session already")
	}
	if err := s.holds(); err != nil {
		return err
	}
	if err := noNewPrivs(s.client.PID, thread); err != nil { // the programs leave it out, too, but can't say why
		return err
	}
	if err := s.change(func(r *record) { r.Thread = thread }); err != nil {
		return err
	}
	if err := s.kernel.ExpectThread(s.thread(), s.from); err != nil {
		return err
	}
	s.expect()
	return nil
}

// holds makes sure that the session is within the one around it still.
func (s *session) holds() error {
	if s.from == 0 { // its policies needn't be read
		return nil
	}
	p, err := s.policies()
	if err != nil {
		return err
	}
	return s.d.holds(s.from, p.inForce)
}

// thread is the one that enters the session.
func (s *session) thread() loader.Thread {
	return loader.Thread{Process: s.client.PID, ID: s.record.Thread}
}

// entering bounds how long a session may be without its toolguard saying that the thread is in: nobody hears of it until then, and
// the programs look for the thread with all that happens on the machine.
const entering = 10 * time.Second

// expect ends the session unless its toolguard says soon that the thread is in.
func (s *session) expect() {
	time.AfterFunc(entering, func() {
		s.changing.Lock()
		defer s.changing.Unlock()
		if s.now() == api.Starting {
			s.d.log("session %s is ended: process %d had a thread put into it and didn't go on", s.id, s.client.PID)
			s.stop()
		}
	})
}

// adopted makes sure that the thread is in, and begins to hear of the session.
func (s *session) adopted() error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.now() != api.Starting || s.record.Thread == 0 {
		return refuse(409, "no thread is about to enter this session")
	}
	if err := s.kernel.ConfirmThread(s.thread()); err != nil {
		return err
	}
	if s.kernel.Counts().Living <= 0 {
		return refuse(409, "the thread isn't in the session: it hasn't done anything since")
	}
	if err := s.change(func(r *record) { r.Info.State = api.Running }); err != nil {
		return err
	}
	if !s.begun() {
		return refuse(409, "session %s is being ended", s.id)
	}
	s.tellStart()
	go s.alongside()
	return nil
}

func (s *session) tellStart() {
	st := &s.record.Start
	s.denials.Emit(event.Event{
		Kind: event.SessionStart, Mechanism: "bpf", Degraded: st.Degraded, Removed: st.Removed,
		Process: []event.Process{{PID: s.client.PID, UID: s.uid, Argv: st.Argv}},
	})
}

// begun begins to hear of the session, unless it's being ended.
func (s *session) begun() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != api.Starting {
		return false
	}
	s.state = api.Running
	s.follow(false)
	return true
}

func (s *session) now() api.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// change changes the record, in its file first. It's called by who holds changing.
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

// source is where the session's policies are.
func (s *session) source() denials.Source {
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
	if s.from == 0 { // or its toolguard is confined itself, and its denials are reported as all others
		cfg.Self = s.client.PID
	}
	return cfg
}

// follow begins to report what is denied in the session, which a toolguardd before may have followed.
func (s *session) follow(resumed bool) {
	source := s.source()
	source.Resumed = resumed
	info := &s.record.Info
	s.denials = denials.Follow(s.kernel, source, s.denialsConfig(&policy.Compiled{Name: info.Policy, Digest: info.Digest}))
}

// reload gives the session another policy, put within the outer sessions'.
func (s *session) reload(asked *policy.Compiled, size int) error {
	s.mu.Lock()
	st, info := s.record.Start, s.record.Info
	s.mu.Unlock()
	if asked.Workspace != info.Workspace || asked.TmpDir != "" && asked.TmpDir != info.TmpDir { // what runs there may have made symlinks of them
		return refuse(409, "the policy is for the workspace %s and the TMPDIR %q, and session %s has %s and %q: has one of them been moved, or "+
			"become a symlink?", asked.Workspace, asked.TmpDir, s.id, info.Workspace, info.TmpDir)
	}
	by := origin{s.from, s.uid, s.client.PID, s.mounts, true}
	c, err := s.d.within(by, &st, asked)
	if err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if s.d.holds(s.from, c) != nil { // the one around it got another policy meanwhile
		if c, err = s.d.within(by, &st, asked); err != nil {
			return err
		}
		if err := s.d.holds(s.from, c); err != nil {
			return err
		}
	}
	if now := s.now(); s.denials == nil || now == api.Ending {
		return refuse(409, "session %s is %s: only one that runs can get another policy", s.id, now)
	}
	if s.record.Flags&^(loader.FlagsOf(c)|s.record.Sockets) != 0 {
		return refuse(409, "new namespaces, internet sockets and kernel calls, which the session was allowed at its start, can't be taken "+
			"from it while it runs: end it ('toolguard sessions kill %s')", s.id)
	}
	if n := s.network; n != nil && c.Intercepts() && !n.Intercepts {
		return refuse(409, "tls_intercept can't be turned on for session %s while it runs: its command was told of no certificate authority; "+
			"end it ('toolguard sessions kill %s') and start it with this policy", s.id, s.id)
	}
	next := s.record.Generation + 1
	img, err := image.New(c, next)
	if err != nil {
		return refuse(422, "%v", err)
	}
	former, err := s.policies() // here until it's done: nobody looks for them in the files meanwhile
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(former)
	before, r := s.record, s.record
	r.fill(img.Lines(), size, s.d.sizeOf(s.from))
	done, err := s.d.reserve(s.asker(), taken{lines: max(0, r.Lines-before.Lines), size: max(0, r.Held-before.Held)})
	if err != nil {
		return err
	}
	defer done()
	p := &policies{asked, size, c, map[uint32]*policy.Compiled{api.FirstGeneration: former.all[api.FirstGeneration], before.Generation: former.inForce, next: c}}
	r.Generation = next
	r.Info.Reloads++
	r.Info.Policy, r.Info.Digest, r.Info.Files = c.Name, c.Digest, c.Files
	if err := s.d.savePolicy(&r, p); err != nil {
		return err
	}
	back := func() error {
		err := s.d.save(&before)
		if err == nil {
			s.d.removePolicies(&r, &before)
		}
		return err
	}
	if err := s.d.save(&r); err != nil {
		return errors.Join(err, back())
	}
	if err := s.reloadNetwork(next, c); err != nil {
		return errors.Join(err, back())
	}
	s.denials.Reloaded(next, c)
	if err := s.kernel.Reload(img); err != nil {
		s.denials.Reloaded(before.Generation, former.inForce)
		return errors.Join(err, s.reloadNetwork(before.Generation, former.inForce), back())
	}
	s.mu.Lock()
	s.recent, s.record = weak.Make(p), r
	s.mu.Unlock()
	s.d.removePolicies(&before, &r)
	s.lines.Store(int64(r.Lines))
	s.size.Store(int64(r.Held))
	s.denials.Emit(event.Event{Kind: event.Daemon, Mechanism: "toolguardd", Extra: map[string]string{"what": "the session got another policy"}})
	return nil
}

// attach has the client hear of the session until it's over, or its command has ended and the others go on, or done says that
// the client is gone.
func (s *session) attach(f *follower, begin func(), done <-chan struct{}) (end api.End, over bool) {
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
