package daemon

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"time"
	"weak"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/daemon/peer"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

// begin makes a session for a peer, within the one that it's in.
func (d *Daemon) begin(p *peer.Peer, st api.Start, size int) (*session, error) {
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
		if err := d.cfg.Audit.ReadyFor(p.UID); err != nil {
			return nil, refuse(503, "what happens in a session couldn't be kept, so none begins: %v", err)
		}
	}
	ns, err := loader.MountNamespace(fmt.Sprint(p.PID()))
	if err != nil {
		return nil, err
	}
	c, err := d.within(origin{p.Session, p.UID, p.PID(), ns, false}, &st, st.Policy)
	if err != nil {
		return nil, err
	}
	img, err := image.New(c, api.FirstGeneration)
	if err != nil {
		return nil, refuse(422, "%v", err)
	}
	net, err := d.network(p.Session, &st)
	if err != nil {
		return nil, err
	}
	r := &record{}
	r.fill(img.Lines(), size, d.sizeOf(p.Session))
	more := taken{sessions: 1, lines: r.Lines, size: r.Held}
	if net != nil {
		more.networks = 1
	}
	done, err := d.reserve(p.QuotaKey(), more)
	if err != nil {
		return nil, err
	}
	defer done()
	client, err := proc.Open(p.PID(), p.Process.Start)
	if err != nil {
		return nil, err
	}
	number := newNumber()
	r.Number, r.From, r.Start, r.Client, r.Mounts, r.Net, r.Generation = number, p.Session, st, client.Start, ns, net, api.FirstGeneration
	r.Start.Policy = nil
	r.Info = api.Session{
		ID: fmt.Sprintf("%016x", number), UID: p.UID, PID: client.PID, Tool: st.Tool, Agent: st.Agent, Argv: st.Argv,
		Policy: c.Name, Digest: c.Digest, Files: c.Files, Workspace: c.Workspace, Path: c.Path, TmpDir: c.TmpDir, Home: st.Home,
		Started: time.Now(), State: api.Starting, Network: net != nil,
	}
	r.Info.Terminal, r.Info.Hidden = peer.TerminalOf(p.PID())
	held := &policies{st.Policy, size, c, map[uint32]*policy.Compiled{api.FirstGeneration: c}}
	r.Sockets = d.sockets(r, held)
	r.Flags = loader.FlagsOf(c) | r.Sockets
	if p.Session != 0 {
		outer, err := d.session(p.Session)
		if err != nil {
			return nil, refuse(403, notOurs)
		}
		r.Flags &= outer.flags // a policy that says nothing of system calls leaves them to those within it, and allows none itself
		r.Info.Within = fmt.Sprintf("%016x", p.Session)
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
