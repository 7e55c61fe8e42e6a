package daemon

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/cgroup/managed"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/network"
)

// networkRecord is what a session's file has about its network.
type networkRecord struct {
	Upstream   []netip.AddrPort // the name servers that egress asks
	Place      uint64           // the inode of its network namespace
	Intercepts bool             // its command was told of a certificate authority
}

// maxResolvers is as many as resolv.conf(5) can name.
const maxResolvers = 3

// whyNoNetwork says why rules about the network can't be decided for sessions within another one, or within none.
func (d *Daemon) whyNoNetwork(from uint64) string {
	if d.noNetwork == "" && d.isLimited(from) {
		return "the session around it has limits of memory, processes, processor or disk, whose cgroup nothing within leaves"
	}
	return d.noNetwork
}

// network is what holds the network of a new session; nil: nothing does, or what holds the session around it. Whatever leaves
// that one's cgroup is held anew, by both policies.
func (d *Daemon) network(from uint64, st *api.Start) (*networkRecord, error) {
	var outer *networkRecord
	if s := d.networkAround(from); s != nil {
		outer = s.network
	}
	if st.Network == nil && (outer == nil || !limited(st.Limits)) {
		return nil, nil
	}
	if why := d.whyNoNetwork(from); why != "" {
		return nil, refuse(422, "rules about the network can't be held: %s", why)
	}
	if outer != nil { // what answers within answers to what is without
		return &networkRecord{Upstream: outer.Upstream}, nil
	}
	list := st.Network.Resolvers
	if len(list) == 0 || len(list) > maxResolvers {
		return nil, refuse(400, "a session's network takes one to %d name servers", maxResolvers)
	}
	for _, a := range list {
		if !a.IsValid() || a.Port() != 53 {
			return nil, refuse(400, "%s is no name server's address", a)
		}
	}
	return &networkRecord{Upstream: list}, nil
}

// networkAround is the next session around, itself included, whose network is held.
func (d *Daemon) networkAround(number uint64) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[number]
	for s != nil && s.network == nil {
		s = d.sessions[s.from]
	}
	return s
}

// sockets are the kinds of sockets that a session may make since its network is held, or that of the session around it: no others than
// that one.
func (d *Daemon) sockets(r *record, p *policies) loader.Flags {
	flags := loader.Sockets
	if r.Net == nil {
		flags &= loader.FlagsOf(p.asked)
	}
	outer, err := d.session(r.From)
	switch {
	case !network.Decides(p.inForce):
		return 0
	case err == nil:
		return flags & outer.flags
	case r.From == 0 && r.Net != nil:
		return flags
	}
	return 0
}

func (s *session) netConfig(c *policy.Compiled) (denials.Source, denials.Config) {
	cfg := s.denialsConfig(c)
	if st := &s.record.Start; st.Network != nil {
		cfg.Proxies = st.Network.Proxies
	}
	return s.source(), cfg
}

// beginNetwork holds the session's cgroup, which nobody is in yet, where its toolguard has its network.
func (s *session) beginNetwork(c *policy.Compiled) error {
	place, err := network.NamespaceOf(s.client.FD)
	if err != nil {
		return err
	}
	inode, err := inodeOf(place)
	if err == nil {
		s.net, err = network.Load()
		go func() { _ = network.Ahead() }() // the session that needs it next reports why it can't be had
	}
	if err != nil {
		_ = place.Close()
		return err
	}
	source, cfg := s.netConfig(c)
	s.network.Place, s.network.Intercepts = inode, c.Intercepts()
	s.bundle, err = s.net.Begin(source, cfg, network.Place{Group: s.group.Load().Group, Network: place, Upstream: s.network.Upstream})
	if err != nil {
		s.net = nil // it has given itself up
		_ = place.Close()
	}
	return err
}

func inodeOf(f *os.File) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return st.Ino, os.NewSyscallError("fstat", err)
}

// resumeNetwork takes over what a toolguardd before has held. Where that can't be done all stays refused that egress would decide about.
func (s *session) resumeNetwork(c *policy.Compiled) {
	err := errors.New("its cgroup can't be opened")
	if s.group.Load() != nil {
		err = s.takeOverNetwork(c)
	}
	if err == nil {
		return
	}
	s.d.log("session %s: its network can't be taken over, and all names stay refused: %v", s.id, err)
	if s.denials != nil {
		s.denials.Missed("toolguardd", fmt.Sprintf("the network can't be taken over from the toolguardd before: names stay denied, and what is denied of addresses unreported: %v", err))
	}
}

func (s *session) takeOverNetwork(c *policy.Compiled) error {
	place, err := s.findPlace()
	if err != nil {
		return err
	}
	source, cfg := s.netConfig(c)
	at := network.Place{Group: s.group.Load().Group, Network: place, Upstream: s.network.Upstream}
	if s.net, err = network.Resume(source, cfg, s.record.Generation, at); err != nil {
		_ = place.Close()
	}
	return err
}

// findPlace finds the session's network namespace again, by its toolguard, or by those that this has left.
func (s *session) findPlace() (*os.File, error) {
	if place := s.placeOf(s.client.FD); place != nil {
		return place, nil
	}
	pids, err := s.group.Load().Processes()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		place := s.placeOf(fd)
		_ = unix.Close(fd)
		if place != nil {
			return place, nil
		}
	}
	return nil, errors.New("none of its processes is in the network namespace where it began")
}

// placeOf is a process's network namespace, if it's the session's.
func (s *session) placeOf(pidfd int) *os.File {
	place, err := network.NamespaceOf(pidfd)
	if err != nil {
		return nil
	}
	if inode, err := inodeOf(place); err != nil || inode != s.network.Place {
		_ = place.Close()
		return nil
	}
	return place
}

// reloadNetwork is called by who holds changing.
func (s *session) reloadNetwork(generation uint32, c *policy.Compiled) error {
	if s.network == nil {
		return nil
	}
	if s.net == nil {
		return refuse(409, "the network of session %s couldn't be taken over from the toolguardd before: end it ('toolguard sessions kill %s')", s.id, s.id)
	}
	return s.net.Reload(generation, c)
}

// endWithin has the session around, which holds this one's network, close the sockets that others have by now.
func (s *session) endWithin(g *managed.Group) {
	outer := s.d.networkAround(s.from)
	if s.network != nil || outer == nil {
		return
	}
	outer.changing.Lock() // it doesn't end meanwhile
	defer outer.changing.Unlock()
	if outer.net != nil {
		outer.net.EndWithin(g.Path())
	}
}

// endNetwork gives the network up, and returns what was refused there. Sessions within that end wait for it, with their cgroups.
func (s *session) endNetwork() (counts cgroupsock.Counts) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	net := s.net
	s.net = nil
	s.mu.Unlock()
	if net != nil {
		counts = net.End()
	}
	return counts
}
