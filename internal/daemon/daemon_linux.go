package daemon

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/audit"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/network"
)

// Config is what toolguardd is told.
type Config struct {
	State    string // the folder of its files
	Policies string // the folder of the host's policies
	Version  string
	Log      *slog.Logger
	Limits   Limits
	Audit    *audit.Log // nil: nobody keeps the events
}

// Limits bound what one user may take. Root's own requests are bounded too.
type Limits struct {
	Sessions    int `toml:"sessions"`    // at a time
	Networks    int `toml:"networks"`    // of them, those that have egress
	Connections int `toml:"connections"` // at a time
	Bodies      int `toml:"-"`           // requests that take long, with a policy, at a time; others wait
	Policies    int `toml:"policies"`    // bytes of policies, of all of his sessions together
	Lines       int `toml:"lines"`       // of the kernel's room for policies, all of his sessions together
}

// DefaultLimits leave room for several users: the kernel's tables hold 1,024 sessions and 131,072 lines.
var DefaultLimits = Limits{Sessions: 128, Networks: 32, Connections: 256, Bodies: 4, Policies: 64 << 20, Lines: 32768}

// quiet is how long nothing begins, and no policy is looked at, until memory is given back to the kernel. A session's policy takes many
// times its size to read.
const quiet = 10 * time.Second

// A body takes its size to read, and what it says as many times more as maxValues allows, 100 MiB in all at most. So it's the number of
// those that are parsed at a time that bounds what toolguardd takes. Of honest ones none that is short enough says as much.
const (
	maxBodies = 4
	maxValues = 1 << 19
)

// Daemon is toolguardd.
type Daemon struct {
	cfg    Config
	began  time.Time
	kernel *loader.Kernel // nil: no session can be made
	why    string         // why not
	hub    hub
	counts *counts

	denials auditDenials // of sessions that aren't toolguardd's
	pid     int
	mounts  uint32 // the machine's mount namespace, its first process's; 0: it can't be told

	noNetwork string // why the network of no session can be held; "": it can

	bodies   chan struct{}  // one in it for each body that is being parsed, of all users
	stopping chan struct{}  // closed when toolguardd stops
	tidy     *time.Timer    // when nothing has begun for a while, what that took is given back
	telling  sync.WaitGroup // of those who tell toolguards what happens in their sessions

	mu       sync.Mutex
	sessions map[uint64]*session
	reserved map[asker]taken         // for what is being made
	leaving  map[asker]taken         // by what is over, and keeps its place in the kernel still
	turns    map[asker]chan struct{} // one in it for each request that is under way
}

// New makes a toolguardd that owns what the one before has left.
func New(cfg Config) (*Daemon, error) {
	stream, err := event.NewStream()
	if err != nil {
		return nil, err
	}
	stream.Version = cfg.Version
	all := newCounts()
	if cfg.Audit != nil {
		cfg.Audit.Observe(all.onDisk)
	}
	d := &Daemon{
		counts: all, cfg: cfg, began: time.Now(), pid: os.Getpid(), stopping: make(chan struct{}), hub: hub{stream: stream, counts: all, audit: cfg.Audit, listeners: map[*follower]bool{}},
		sessions: map[uint64]*session{}, reserved: map[asker]taken{}, leaving: map[asker]taken{}, turns: map[asker]chan struct{}{}, bodies: make(chan struct{}, maxBodies),
		tidy: time.AfterFunc(quiet, debug.FreeOSMemory),
	}
	d.denials = auditDenials{clients: map[int]int{}, idle: time.AfterFunc(idleTime, d.closeIdle)}
	if err := d.openState(); err != nil {
		return nil, err
	}
	if d.mounts, err = loader.MountNamespace("1"); err != nil {
		d.log("no session can be made where there are policies of the host's: %v", err)
	}
	if err := d.denials.probe(); err != nil {
		d.log("what Landlock denies can't be reported to ordinary users: %v", err)
	}
	if err = loader.Ready(true); err == nil {
		d.kernel, err = loader.Open(d.note)
	}
	if err != nil {
		d.why = err.Error()
		d.log("no session can be made here: %v", err)
		return d, nil
	}
	if err := network.Ahead(); err != nil {
		d.noNetwork = err.Error()
		d.log("the network of no session can be held here: %v", err)
	} else if err := network.ClosesSockets(); err != nil {
		d.log("what a session has connected to by an address stays connected when a reload takes that away: %v", err)
	}
	d.takeOver()
	d.tidy.Reset(quiet) // loading may have taken longer
	return d, nil
}

func (d *Daemon) log(format string, args ...any) { d.cfg.Log.Warn(fmt.Sprintf(format, args...)) }
func (d *Daemon) note(text string)               { d.cfg.Log.Info(text) }

// failure is a request's mistake.
type failure struct {
	status int
	error
}

func refuse(status int, format string, args ...any) error {
	return &failure{status, fmt.Errorf(format, args...)}
}

// begin makes a session for a peer, within the one that it's in.
func (d *Daemon) begin(p *peer, st api.Start, size int) (*session, error) {
	if st.Policy == nil || len(st.Argv) == 0 {
		return nil, refuse(400, "a session takes a policy and a command")
	}
	if err := shortly(&st); err != nil {
		return nil, err
	}
	if st.Home != "" && !filepath.IsAbs(st.Home) {
		return nil, refuse(400, "the home %q isn't an absolute path", st.Home)
	}
	if d.cfg.Audit != nil {
		if err := d.cfg.Audit.ReadyFor(p.uid); err != nil {
			return nil, refuse(503, "what happens in a session couldn't be kept, so none begins: %v", err)
		}
	}
	ns, err := loader.MountNamespace(fmt.Sprint(p.pid()))
	if err != nil {
		return nil, err
	}
	c, err := d.within(origin{p.from, p.uid, p.pid(), ns, false}, &st, st.Policy)
	if err != nil {
		return nil, err
	}
	img, err := image.New(c, api.FirstGeneration)
	if err != nil {
		return nil, refuse(422, "%v", err)
	}
	net, err := d.network(p.from, &st)
	if err != nil {
		return nil, err
	}
	r := &record{}
	r.fill(img.Lines(), size, d.sizeOf(p.from))
	more := taken{sessions: 1, lines: r.Lines, size: r.Held}
	if net != nil {
		more.networks = 1
	}
	done, err := d.reserve(p.asker(), more)
	if err != nil {
		return nil, err
	}
	defer done()
	client, err := proc.Open(p.pid(), p.process.Start)
	if err != nil {
		return nil, err
	}
	number := newNumber()
	r.Number, r.From, r.Start, r.Client, r.Mounts, r.Net, r.Generation = number, p.from, st, client.Start, ns, net, api.FirstGeneration
	r.Start.Policy = nil
	r.Info = api.Session{
		ID: fmt.Sprintf("%016x", number), UID: p.uid, PID: client.PID, Tool: st.Tool, Agent: st.Agent, Argv: st.Argv,
		Policy: c.Name, Digest: c.Digest, Files: c.Files, Workspace: c.Workspace, Path: c.Path, TmpDir: c.TmpDir, Home: st.Home,
		Started: time.Now(), State: api.Starting, Network: net != nil,
	}
	r.Info.Terminal, r.Info.Hidden = terminalOf(p.pid())
	held := &policies{st.Policy, size, c, map[uint32]*policy.Compiled{api.FirstGeneration: c}}
	r.Sockets = d.sockets(r, held)
	r.Flags = loader.FlagsOf(c) | r.Sockets
	if p.from != 0 {
		outer, err := d.session(p.from)
		if err != nil {
			return nil, refuse(403, notOurs)
		}
		r.Flags &= outer.flags // a policy that says nothing of system calls leaves them to those within it, and allows none itself
		r.Info.Within = fmt.Sprintf("%016x", p.from)
	}
	s := d.newSession(r, client)
	s.recent = weak.Make(held)
	if err := s.make(r, held, img); err != nil {
		_, _ = s.events.Close()
		client.Close()
		return nil, err
	}
	d.mu.Lock()
	d.sessions[number] = s
	d.mu.Unlock()
	d.tidy.Reset(quiet)
	go s.supervise()
	return s, nil
}

// What a session's events say in the words of who starts it, in bytes.
const (
	maxName = 256      // a tool's, an agent's
	maxSaid = 64 << 10 // all the rest
)

// shortly refuses words with which an event would be too long to be kept, and only be counted. Those of a policy are looked at when it's
// read. The command line, which is kept, told and shown to whom it isn't of, it cuts and masks; removed variables it cuts.
func shortly(st *api.Start) error {
	if len(st.Tool) > maxName || len(st.Agent) > maxName {
		return refuse(400, "the names of a session's tool and agent have %d and %d bytes, and may have %d: choose shorter ones", len(st.Tool), len(st.Agent), maxName)
	}
	size := len(st.Home)
	for _, text := range st.Degraded {
		size += len(text) + event.StringOverhead
	}
	for _, p := range st.Limits.Places() {
		size += len(p.File)
	}
	if st.Network != nil {
		for _, p := range st.Network.Proxies {
			size += len(p.Variable) + len(p.Scheme) + len(p.Host) + len(p.Port) + event.StringOverhead
		}
	}
	if size > maxSaid {
		return refuse(400, "the home, what isn't enforced, where the limits are set, and the proxies of the variables take %d bytes to say, and may take %d: have less of it in the policy", size, maxSaid)
	}
	st.Argv, st.Removed = event.RedactArgv(event.TruncateArgv(st.Argv)), event.TruncateList(st.Removed)
	return nil
}

// make makes what a session needs: its cgroup, its file, and the session in the kernel, with nobody in it.
func (s *session) make(r *record, p *policies, img *image.Image) (err error) {
	defer func() {
		if err != nil {
			s.d.remove(s.id)
			if s.net != nil {
				s.net.End()
			}
			if g := s.group.Load(); g != nil {
				err = errors.Join(err, g.Remove())
			}
		}
	}()
	if limited(s.limits) && s.d.isLimited(s.from) {
		return refuse(422, "within a session that has limits of memory, processes, processor or disk others can't be set: leave them out")
	}
	if s.beginsInGroup() {
		g, err := managed.New(s.id, s.limits, cgroup.Probe())
		if err != nil {
			return fmt.Errorf("set the limits: %w", err)
		}
		s.group.Store(g)
		r.Info.Cgroup = g.Path()
	}
	if s.network != nil {
		if err := s.beginNetwork(p.inForce); err != nil {
			return fmt.Errorf("hold the network: %w", err)
		}
	}
	if err := s.d.savePolicy(r, p); err != nil {
		return err
	}
	if err := s.d.save(r); err != nil {
		return err
	}
	s.record = *r
	s.kernel, err = s.d.kernel.BeginFor(loader.Client{MountNamespace: r.Mounts, User: uint32(s.uid)}, s.number, img, r.Flags)
	return err
}

func limited(l policy.Limits) bool {
	return l.Memory.N != 0 || l.Pids.N != 0 || l.CPU.N != 0 || l.IO.N != 0
}

// isLimited tells whether a session or one around it has limits that are its cgroup's.
func (d *Daemon) isLimited(number uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := d.sessions[number]; s != nil; s = d.sessions[s.from] {
		if limited(s.limits) {
			return true
		}
	}
	return false
}

func newNumber() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return max(1, binary.NativeEndian.Uint64(b[:]))
}

const notOurs = "the session that asks isn't toolguardd's: only what toolguardd guards can be narrowed by it"

// within is a policy put within the host's or those of the session it comes from and, by that, of those around it.
func (d *Daemon) within(o origin, st *api.Start, c *policy.Compiled) (*policy.Compiled, error) {
	if o.from == 0 {
		return d.hosted(o, st, c)
	}
	outer, err := d.session(o.from)
	if err != nil {
		return nil, refuse(403, notOurs)
	}
	around, err := outer.policies()
	if err != nil {
		return nil, err
	}
	if o.mounts != outer.mounts {
		return nil, refuse(403, "session %s, around this one, sees files in another mount namespace, where their names may stand for other files: begin this one "+
			"outside of the unshare that it has made", outer.id)
	}
	in, err := c.Within(around.inForce)
	if err != nil {
		return nil, refuse(422, "%v", err)
	}
	return in, nil
}

// holds makes sure that a policy is within that of the session from still, and that this goes on: what happens to it
// from now on, happens to all that are within it.
func (d *Daemon) holds(from uint64, c *policy.Compiled) error {
	if from == 0 {
		return nil
	}
	outer, err := d.session(from)
	if err != nil {
		return err
	}
	around, err := outer.policies() // should it get another one now, narrow comes to all that are within it
	if err != nil {
		return err
	}
	if outer.now() == api.Ending || !c.Includes(around.inForce) {
		return refuse(409, "session %s, around this one, has ended or got another policy meanwhile: begin again", outer.id)
	}
	return nil
}

// taken is what somebody's sessions take: lines of the kernel's room for policies, and the policies' own size.
type taken struct{ sessions, networks, lines, size int }

func (t taken) plus(u taken) taken {
	return taken{t.sessions + u.sessions, t.networks + u.networks, t.lines + u.lines, t.size + u.size}
}

func (t taken) minus(u taken) taken {
	return taken{t.sessions - u.sessions, t.networks - u.networks, t.lines - u.lines, t.size - u.size}
}

// sizeOf is what a session's policy in force takes, with those around it; 0 is none.
func (d *Daemon) sizeOf(number uint64) int {
	s, err := d.session(number)
	if err != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record.Sizes[s.record.Generation]
}

// takes is what a session takes.
func (s *session) takes() taken {
	t := taken{sessions: 1, lines: int(s.lines.Load()), size: int(s.size.Load())}
	if s.network != nil {
		t.networks = 1
	}
	return t
}

// reserve makes sure that somebody's sessions may take so much more, and keeps it for him until done. That a session's end takes a moment in
// the kernel, too, isn't held against him.
func (d *Daemon) reserve(a asker, more taken) (done func(), err error) {
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		done, leaving, err := d.tryReserve(a, more)
		if err == nil || !leaving || time.Since(began) > time.Second {
			return done, err
		}
	}
}

// tryReserve also says whether it's for what is leaving alone that it can't be.
func (d *Daemon) tryReserve(a asker, more taken) (done func(), leaving bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.reserved[a].plus(d.leaving[a]).plus(more)
	for _, s := range d.sessions {
		if s.asker() == a {
			all = all.plus(s.takes())
		}
	}
	if err := d.cfg.Limits.allow(a, all, more); err != nil {
		return nil, d.cfg.Limits.allow(a, all.minus(d.leaving[a]), more) == nil, err
	}
	return d.hold(d.reserved, a, more), false, nil
}

// hold counts what somebody takes until done. It's called by who holds mu.
func (d *Daemon) hold(in map[asker]taken, a asker, more taken) (done func()) {
	in[a] = in[a].plus(more)
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if in[a] = in[a].minus(more); in[a] == (taken{}) {
			delete(in, a)
		}
	}
}

// allow says whether somebody's sessions may take all that, so much of which they don't yet.
func (l Limits) allow(a asker, all, more taken) error {
	switch {
	case more.sessions > 0 && all.sessions > l.Sessions:
		return refuse(429, "user %d has %d sessions already, which is as many as one may have ('toolguard sessions list')", a.uid, all.sessions-1)
	case more.networks > 0 && all.networks > l.Networks:
		return refuse(429, "user %d has %d sessions whose rules about the network toolguardd holds, which is as many as one may have "+
			"('toolguard sessions list')", a.uid, all.networks-1)
	case more.lines > 0 && all.lines > l.Lines, more.size > 0 && all.size > l.Policies:
		return refuse(429, "the policies of user %d's sessions would take %d lines in the kernel and %d bytes, and one user may take %d and %d",
			a.uid, all.lines, all.size, l.Lines, l.Policies)
	}
	return nil
}

// turn waits until few enough requests are under way for who asks.
func (d *Daemon) turn(ctx context.Context, a asker) (done func(), err error) {
	d.mu.Lock()
	c := d.turns[a]
	if c == nil {
		c = make(chan struct{}, d.cfg.Limits.Bodies)
		d.turns[a] = c
	}
	d.mu.Unlock()
	return take(ctx, c, refuse(429, "%d requests of user %d's that take long are under way already, which is as many as one may have: try "+
		"again when those are done", cap(c), a.uid))
}

// waiting bounds how long a request waits for others.
const waiting = 30 * time.Second

// take takes one of a number of places, unless all stay taken for too long.
func take(ctx context.Context, places chan struct{}, late error) (done func(), err error) {
	select {
	case places <- struct{}{}:
		return func() { <-places }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(waiting):
		return nil, late
	}
}

func (d *Daemon) session(number uint64) (*session, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.sessions[number]; s != nil {
		return s, nil
	}
	return nil, refuse(404, "there is no session %016x", number)
}

// all are the sessions that a user may know of, the oldest first.
func (d *Daemon) all(uid int) []*session {
	d.mu.Lock()
	defer d.mu.Unlock()
	var list []*session
	for _, s := range d.sessions {
		if mayAsk(uid, s.uid) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *session) int { return a.began.Compare(b.began) })
	return list
}

// nested lists the sessions that are nested directly in another one.
func (d *Daemon) nested(number uint64) []*session {
	return slices.DeleteFunc(d.all(0), func(s *session) bool { return s.from != number })
}

// forget is for a session that is over. It's its user's place in the kernel until done.
func (d *Daemon) forget(s *session) (done func()) {
	d.remove(s.id)
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sessions, s.number)
	return d.hold(d.leaving, s.asker(), taken{sessions: 1, lines: int(s.lines.Load())})
}
