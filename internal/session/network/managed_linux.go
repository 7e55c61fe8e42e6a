package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Managed is the network of a session that another process started, as a run holds its own: with the kernel's programs on the
// session's cgroup, and with egress, a child of this process, which must be of toolguardd's program.
type Managed struct {
	follower   *denials.Follower // nil: it holds nobody's yet
	cfg        denials.Config
	net        *Network
	namespace  *os.File
	generation uint32
	policy     *policy.Compiled
}

// Place is where a session's network is held.
type Place struct {
	Group    *cgroup.Group    // of all that is held
	Network  *os.File         // the network namespace; the Managed's to close, unless it can't be had
	Upstream []netip.AddrPort // the name servers that are asked
}

// Ahead has what one session's network takes loaded, so that its start needn't, or says why none can be held here.
func Preload() error {
	if f := cgroup.Probe(); f.Base == "" {
		return errors.New(f.Why)
	}
	return cgroupsock.Ahead()
}

// Load takes what is loaded ahead for one session's network, or loads it. It's no session's yet.
func Load() (*Managed, error) {
	kernel, err := cgroupsock.Load()
	if err != nil {
		return nil, err
	}
	return newManaged(kernel)
}

func newManaged(kernel *cgroupsock.Session) (*Managed, error) {
	program, err := unix.Open("/proc/self/exe", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		kernel.Close()
		return nil, fmt.Errorf("open egress's program: %w", err)
	}
	return &Managed{net: &Network{program: program, kernel: kernel}}, nil
}

// Begin holds the network of a session in which nobody is yet to the policy of cfg, which is of generation 1. The bundle is of the
// session's certificate authority, where it has one. What can't be begun is given up.
func (n *Managed) Begin(who denials.Source, cfg denials.Config, at Place) (bundle []byte, err error) {
	defer func() {
		if err != nil {
			n.End()
		}
	}()
	n.init(who, cfg, 1)
	if n.net.image, err = cgroupsock.NewImage(cfg.Policy, 1); err != nil {
		return nil, err
	}
	b, err := n.net.Enforce(n.follower.Collector, cfg.Policy, cfg.Session, at.Group.FD(), at.Network, at.Upstream)
	if err != nil {
		return nil, err
	}
	if err := n.net.kernel.SaveState(b.Authority); err != nil {
		return nil, err
	}
	if err := n.follower.ListenNetwork(n.net.kernel); err != nil {
		return nil, err
	}
	n.namespace = at.Network
	return b.Bundle, nil
}

// Resume takes over what another process has held, by the policy in force, which is of a generation. That's gone, and its egress
// with it; another one takes its place.
func Resume(who denials.Source, cfg denials.Config, generation uint32, at Place) (*Managed, error) {
	kernel, err := cgroupsock.Open(at.Group.FD())
	if err != nil {
		return nil, err
	}
	n, err := newManaged(kernel)
	if err != nil {
		return nil, err
	}
	n.init(who, cfg, generation)
	ports, err := n.net.startEgress(n.follower.Collector, message.Instructions{
		Policy: cfg.Policy, Generation: generation, Upstream: at.Upstream, Authority: kernel.SavedState(),
	}, at.Network)
	if err == nil {
		err = errors.Join(kernel.Redirect(ports), n.follower.ListenNetwork(kernel))
	}
	if err != nil {
		n.End()
		return nil, err
	}
	n.namespace = at.Network
	n.closeDenied() // it may be that the other one hadn't yet
	return n, nil
}

func (n *Managed) init(who denials.Source, cfg denials.Config, generation uint32) {
	n.follower, n.cfg = denials.NewFollower(who, cfg), cfg
	n.generation, n.policy = generation, cfg.Policy
}

// Reload holds the session to another policy, and closes the connections that it doesn't grant. What can't be changed stays as it was.
func (n *Managed) Reload(generation uint32, c *policy.Compiled) error {
	img, err := cgroupsock.NewImage(c, generation)
	if err != nil {
		return err
	}
	n.follower.Reloaded(generation, c)
	if err = n.net.egress.Reload(generation, c); err == nil { // first: what it permits is forgotten then
		if err = n.net.kernel.Reload(img); err != nil {
			err = errors.Join(err, n.net.egress.Reload(n.generation, n.policy))
			n.net.kernel.Forget(n.generation)
		}
	}
	if err != nil {
		n.follower.Reloaded(n.generation, n.policy)
		return err
	}
	n.generation, n.policy = generation, c
	n.closeDenied()
	return nil
}

// closeDenied closes what the kernel alone has let the session connect to, where the policy in force doesn't grant it. Egress has ended what it
// passes on.
func (n *Managed) closeDenied() {
	closed, err := n.net.closeSockets(n.namespace, (*cgroupsock.Session).CloseDenied)
	report := func(format string, args ...any) {
		n.follower.Emit(event.Event{Kind: event.Daemon, Mechanism: "netguard", Extra: map[string]string{"what": fmt.Sprintf(format, args...)}})
	}
	if closed > 0 {
		report("closed %d sockets that were connected to, or waited for, what the policy in force doesn't grant", closed)
	}
	if err != nil {
		n.follower.Warn("session %s: connections that its policy doesn't grant may be open still: %v", denials.SessionID(n.cfg.Session), err)
		report("connections that the policy doesn't grant may be open still: %v", err)
	}
}

// EndWithin closes the sockets that others have by now of a session within this one that ends, and has a cgroup beneath and no network of its own.
func (n *Managed) CloseNested(cgroup string) {
	if !n.net.kernel.HasSockets() {
		return
	}
	if _, err := n.net.closeSockets(n.namespace, func(s *cgroupsock.Session, d *cgroupsock.Diag) (int, error) { return s.CloseOpenIn(d, cgroup) }); err != nil {
		n.follower.Warn("sockets of a session within session %s that others have stay open: %v", denials.SessionID(n.cfg.Session), err)
	}
}

// Counts are what the kernel counted in it.
func (n *Managed) Counts() cgroupsock.Counts { return n.net.kernel.Counts() }

// End ends egress, reports what isn't reported yet, and tears the network down. What is left in the cgroup stays confined.
func (n *Managed) End() cgroupsock.Counts {
	counts := n.follower.EndNetwork(func() { n.net.StopEgress() }, func() cgroupsock.Counts { return n.net.End(n.namespace, false, n.follower.Warn) })
	if n.namespace != nil {
		_ = n.namespace.Close()
	}
	return counts
}

// NamespaceOf is the network namespace of a process, by its pidfd (setns(2), Linux 5.8).
func NamespaceOf(pidfd int) (place *os.File, err error) {
	done := make(chan error)
	forkexec.OnThread(func() {
		err := os.NewSyscallError("setns", unix.Setns(pidfd, unix.CLONE_NEWNET))
		if err == nil {
			place, err = os.Open("/proc/thread-self/ns/net")
		}
		done <- err
	})
	if err := <-done; err != nil {
		return nil, fmt.Errorf("find its network namespace: %w", err)
	}
	return place, nil
}
