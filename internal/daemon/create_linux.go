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

// begin creates a session for a peer, nested in the peer's own session.
func (d *Daemon) begin(p *peer.Peer, st api.Start, size int) (*session, error) {
	if st.Policy == nil || len(st.Argv) == 0 {
		return nil, reject(400, "a session needs a policy and a command")
	}
	if err := checkSizes(&st); err != nil {
		return nil, err
	}
	if st.Home != "" && !filepath.IsAbs(st.Home) {
		return nil, reject(400, "the home %q isn't an absolute path", st.Home)
	}
	if d.cfg.Audit != nil {
		if err := d.cfg.Audit.ReadyFor(p.UID); err != nil {
			return nil, reject(503, "the events of a session couldn't be recorded, so none begins: %v", err)
		}
	}
	ns, err := loader.MountNamespace(fmt.Sprint(p.PID()))
	if err != nil {
		return nil, err
	}
	c, err := d.restrict(origin{p.Session, p.UID, p.PID(), ns, false}, &st, st.Policy)
	if err != nil {
		return nil, err
	}
	img, err := image.New(c, api.FirstGeneration)
	if err != nil {
		return nil, reject(422, "%v", err)
	}
	net, err := d.network(p.Session, &st)
	if err != nil {
		return nil, err
	}
	r := &record{}
	r.fill(img.Lines(), size, d.sizeOf(p.Session))
	more := usage{sessions: 1, lines: r.Lines, size: r.StoredSize}
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
	stored := &policies{st.Policy, size, c, map[uint32]*policy.Compiled{api.FirstGeneration: c}}
	r.Sockets = d.sockets(r, stored)
	r.Flags = loader.FlagsOf(c) | r.Sockets
	if p.Session != 0 {
		outer, err := d.session(p.Session)
		if err != nil {
			return nil, reject(403, notOurs)
		}
		r.Flags &= outer.flags // a policy without rules about system calls allows none itself
		r.Info.Within = fmt.Sprintf("%016x", p.Session)
	}
	s := d.newSession(r, client)
	s.recent = weak.Make(stored)
	if err := s.make(r, stored, img); err != nil {
		_, _ = s.events.Close()
		client.Close()
		return nil, err
	}
	d.mu.Lock()
	d.sessions[number] = s
	d.mu.Unlock()
	d.freeMemory.Reset(freeMemoryDelay)
	go s.supervise()
	return s, nil
}

// Bounds of the client's texts in a session's events, in bytes.
const (
	maxName  = 256      // the name of a tool or an agent
	maxTexts = 64 << 10 // all other texts together
)

// checkSizes rejects a request whose texts would make an event too long to be recorded. The texts of a policy are checked when it's parsed.
// The command line, which other users may see, is truncated and redacted; the removed variables are truncated.
func checkSizes(st *api.Start) error {
	if len(st.Tool) > maxName || len(st.Agent) > maxName {
		return reject(400, "the names of a session's tool and agent have %d and %d bytes, and may have %d: choose shorter ones", len(st.Tool), len(st.Agent), maxName)
	}
	size := len(st.Home)
	for _, text := range st.Degraded {
		size += len(text) + event.StringOverhead
	}
	for _, p := range st.Limits.Positions() {
		size += len(p.File)
	}
	if st.Network != nil {
		for _, p := range st.Network.Proxies {
			size += len(p.Variable) + len(p.Scheme) + len(p.Host) + len(p.Port) + event.StringOverhead
		}
	}
	if size > maxTexts {
		return reject(400, "the home, the rules that aren't enforced, the positions of the limits, and the proxies of the variables have %d bytes together, and may have %d: shorten them in the policy", size, maxTexts)
	}
	st.Argv, st.Removed = event.RedactArgv(event.TruncateArgv(st.Argv)), event.TruncateList(st.Removed)
	return nil
}

// make creates what a session needs: its cgroup, its file, and the session in the kernel, without a thread in it.
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
		return reject(422, "the outer session has limits of memory, processes, processor or disk, so a nested session can't have its own: remove them from the policy")
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
			return fmt.Errorf("enforce the network rules: %w", err)
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

// isLimited reports whether a session or one of its outer sessions has limits that a cgroup enforces.
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

const notOurs = "the client's session doesn't belong to this toolguardd: only a session that toolguardd made can have nested ones"

// restrict returns a policy restricted by that of the outer session and thereby by all outer ones, or by the host's policies.
func (d *Daemon) restrict(o origin, st *api.Start, c *policy.Compiled) (*policy.Compiled, error) {
	if o.from == 0 {
		return d.restrictToHost(o, st, c)
	}
	outer, err := d.session(o.from)
	if err != nil {
		return nil, reject(403, notOurs)
	}
	around, err := outer.policies()
	if err != nil {
		return nil, err
	}
	if o.mounts != outer.mounts {
		return nil, reject(403, "the outer session %s is in another mount namespace, where paths may name other files: start this one "+
			"outside of the mount namespace that it has made", outer.id)
	}
	in, err := c.Within(around.inForce)
	if err != nil {
		return nil, reject(422, "%v", err)
	}
	return in, nil
}

// checkNested returns an error unless a policy is restricted by the current policy of the session from. Later changes of that policy reach
// all nested sessions.
func (d *Daemon) checkNested(from uint64, c *policy.Compiled) error {
	if from == 0 {
		return nil
	}
	outer, err := d.session(from)
	if err != nil {
		return err
	}
	around, err := outer.policies() // if its policy changes now, restrictNested restricts all nested sessions again
	if err != nil {
		return err
	}
	if outer.currentState() == api.Ending || !c.Includes(around.inForce) {
		return reject(409, "the outer session %s has ended or its policy has changed meanwhile: try again", outer.id)
	}
	return nil
}
