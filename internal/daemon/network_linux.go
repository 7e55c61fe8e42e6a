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

// networkRecord is the part of a session's file about its network.
type networkRecord struct {
	Upstream   []netip.AddrPort // the name servers that egress asks
	Namespace  uint64           `json:"Place"` // the inode of its network namespace
	Intercepts bool             // its command has a certificate authority
}

// maxResolvers is as many as resolv.conf(5) can name.
const maxResolvers = 3

// whyNoNetwork is the reason why toolguardd can't enforce network rules for sessions nested in a session, or for outermost ones (0).
func (d *Daemon) whyNoNetwork(from uint64) string {
	if d.noNetwork == "" && d.isLimited(from) {
		return "the outer session has limits of memory, processes, processor or disk, whose cgroup no nested session may leave"
	}
	return d.noNetwork
}

// network is the network of a new session; nil: toolguardd doesn't enforce one, or the outer session's applies. A session that leaves the
// outer one's cgroup gets its own, with both policies.
func (d *Daemon) network(from uint64, st *api.Start) (*networkRecord, error) {
	var outer *networkRecord
	if s := d.networkAround(from); s != nil {
		outer = s.network
	}
	if st.Network == nil && (outer == nil || !limited(st.Limits)) {
		return nil, nil
	}
	if why := d.whyNoNetwork(from); why != "" {
		return nil, reject(422, "network rules can't be enforced: %s", why)
	}
	if outer != nil { // a nested session uses the name servers of the outer one
		return &networkRecord{Upstream: outer.Upstream}, nil
	}
	list := st.Network.Resolvers
	if len(list) == 0 || len(list) > maxResolvers {
		return nil, reject(400, "a session's network needs one to %d name servers", maxResolvers)
	}
	for _, a := range list {
		if !a.IsValid() || a.Port() != 53 {
			return nil, reject(400, "%s isn't the address of a name server", a)
		}
	}
	return &networkRecord{Upstream: list}, nil
}

// networkAround is the innermost session, itself included, whose network toolguardd enforces.
func (d *Daemon) networkAround(number uint64) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := d.sessions[number]
	for s != nil && s.network == nil {
		s = d.sessions[s.from]
	}
	return s
}

// sockets are the kinds of sockets that a session may create because its network, or the outer session's, is enforced. They are a subset of
// the outer session's.
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

// networkConfig returns the session's network in a namespace, and the collector of its denials.
func (s *session) networkConfig(c *policy.Compiled, namespace *os.File) network.Config {
	cfg := s.denialsConfig(c)
	if st := &s.record.Start; st.Network != nil {
		cfg.Proxies = st.Network.Proxies
	}
	return network.Config{
		Session: s.number, ID: s.id, Policy: c, Group: s.group.Load().Group, Namespace: namespace, Upstream: s.network.Upstream,
		Denials: denials.NewFollower(s.denialSource(), cfg),
	}
}

// beginNetwork enforces the network on the session's cgroup, which is still empty, in its client's network namespace.
func (s *session) beginNetwork(c *policy.Compiled) error {
	namespace, err := network.NamespaceOf(s.client.FD)
	if err != nil {
		return err
	}
	inode, err := inodeOf(namespace)
	if err == nil {
		s.net, err = network.Load()
		go func() { _ = network.Preload() }() // the session that needs it next reports why it can't be had
	}
	if err != nil {
		_ = namespace.Close()
		return err
	}
	s.network.Namespace, s.network.Intercepts = inode, c.Intercepts()
	s.bundle, err = s.net.Begin(s.networkConfig(c, namespace))
	if err != nil {
		s.net = nil // Begin has closed it
		_ = namespace.Close()
	}
	return err
}

func inodeOf(f *os.File) (uint64, error) {
	var st unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &st)
	return st.Ino, os.NewSyscallError("fstat", err)
}

// resumeNetwork takes over the network from a former toolguardd. If that fails, everything that egress would decide stays denied.
func (s *session) resumeNetwork(c *policy.Compiled) {
	err := errors.New("its cgroup can't be opened")
	if s.group.Load() != nil {
		err = s.takeOverNetwork(c)
	}
	if err == nil {
		return
	}
	s.d.log("session %s: its network can't be taken over, and all names stay denied: %v", s.id, err)
	if s.denials != nil {
		s.denials.Missed("toolguardd", fmt.Sprintf("the network can't be taken over from the former toolguardd: names stay denied, and denials of addresses go unreported: %v", err))
	}
}

func (s *session) takeOverNetwork(c *policy.Compiled) error {
	namespace, err := s.findNamespace()
	if err != nil {
		return err
	}
	if s.net, err = network.Resume(s.networkConfig(c, namespace), s.record.Generation); err != nil {
		_ = namespace.Close()
	}
	return err
}

// findNamespace finds the session's network namespace, by its client or by the processes in its cgroup.
func (s *session) findNamespace() (*os.File, error) {
	if namespace := s.namespaceOf(s.client.FD); namespace != nil {
		return namespace, nil
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
		namespace := s.namespaceOf(fd)
		_ = unix.Close(fd)
		if namespace != nil {
			return namespace, nil
		}
	}
	return nil, errors.New("none of its processes is in the network namespace where it began")
}

// namespaceOf is a process's network namespace, if it's the session's.
func (s *session) namespaceOf(pidfd int) *os.File {
	namespace, err := network.NamespaceOf(pidfd)
	if err != nil {
		return nil
	}
	if inode, err := inodeOf(namespace); err != nil || inode != s.network.Namespace {
		_ = namespace.Close()
		return nil
	}
	return namespace
}

// reloadNetwork changes the policy of the network. The caller has locked changing.
func (s *session) reloadNetwork(generation uint32, c *policy.Compiled) error {
	if s.network == nil {
		return nil
	}
	if s.net == nil {
		return reject(409, "the network of session %s couldn't be taken over from the former toolguardd: end it ('toolguard sessions kill %s')", s.id, s.id)
	}
	return s.net.Reload(generation, c)
}

// closeNestedSockets makes the outer session whose network applies close the sockets that this session has passed to other processes.
func (s *session) closeNestedSockets(g *managed.Group) {
	outer := s.d.networkAround(s.from)
	if s.network != nil || outer == nil {
		return
	}
	outer.changing.Lock() // it doesn't end meanwhile
	defer outer.changing.Unlock()
	if outer.net != nil {
		outer.net.CloseNested(g.Path())
	}
}

// endNetwork ends the network, and returns the denials. Nested sessions that end wait for it, with their cgroups.
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
