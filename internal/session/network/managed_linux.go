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
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Managed is the network of a session that another process started. Egress is a child of this process and runs the same program, which
// must be toolguardd's.
type Managed struct {
	cfg        Config
	net        *Network
	generation uint32 // of policy
	policy     *policy.Compiled
}

// Config is the session of a Managed.
type Config struct {
	Session   uint64 // its number
	ID        string // its name in messages
	Policy    *policy.Compiled
	Group     *cgroup.Group
	Namespace *os.File         // the network namespace; Managed closes it, unless Begin or Resume fails
	Upstream  []netip.AddrPort // name servers
	Denials   Collector
}

// Collector makes events of what a session's network reports. It is a *denials.Follower outside tests.
type Collector interface {
	reporter
	ListenNetwork(s *cgroupsock.Session) error
	Reloaded(generation uint32, c *policy.Compiled)
	Emit(e event.Event)
	EndNetwork(endEgress func(), end func() cgroupsock.Counts) cgroupsock.Counts
}

// Preload loads the BPF programs for the next session, or returns why this machine can't enforce network rules.
func Preload() error {
	if f := cgroup.Probe(); f.Base == "" {
		return errors.New(f.Why)
	}
	return cgroupsock.Preload()
}

// Load returns the preloaded BPF programs, or loads them. They aren't attached to a session.
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

// Begin enforces the first policy of a session, whose cgroup is empty. It returns the bundle of the session's certificate authority, if
// there is one. If it fails it tears everything down.
func (n *Managed) Begin(cfg Config) (bundle []byte, err error) {
	defer func() {
		if err != nil {
			n.end()
		}
	}()
	n.cfg, n.generation, n.policy = cfg, firstGeneration, cfg.Policy
	if n.net.image, err = cgroupsock.NewImage(cfg.Policy, firstGeneration); err != nil {
		return nil, err
	}
	b, err := n.net.Enforce(cfg.Denials, cfg.Policy, cfg.Session, cfg.Group.FD(), cfg.Namespace, cfg.Upstream)
	if err != nil {
		return nil, err
	}
	if err := n.net.kernel.SaveState(b.Authority); err != nil {
		return nil, err
	}
	return b.Bundle, cfg.Denials.ListenNetwork(n.net.kernel)
}

// Resume takes over the network of a session from another process, which has ended together with its egress. cfg.Policy is the policy in
// force, of a generation.
func Resume(cfg Config, generation uint32) (*Managed, error) {
	kernel, err := cgroupsock.Open(cfg.Group.FD())
	if err != nil {
		return nil, err
	}
	n, err := newManaged(kernel)
	if err != nil {
		return nil, err
	}
	n.cfg, n.generation, n.policy = cfg, generation, cfg.Policy
	ports, err := n.net.startEgress(cfg.Denials, message.Instructions{
		Policy: cfg.Policy, Generation: generation, Upstream: cfg.Upstream, Authority: kernel.SavedState(),
	}, cfg.Namespace)
	if err == nil {
		err = errors.Join(kernel.Redirect(ports), cfg.Denials.ListenNetwork(kernel))
	}
	if err != nil {
		n.end()
		return nil, err
	}
	n.closeDenied() // the former process may have ended before it did
	return n, nil
}

// Reload puts another policy into force and closes the connections that it doesn't grant. If it fails the former policy stays in force.
func (n *Managed) Reload(generation uint32, c *policy.Compiled) error {
	img, err := cgroupsock.NewImage(c, generation)
	if err != nil {
		return err
	}
	n.cfg.Denials.Reloaded(generation, c)
	if err = n.net.egress.Reload(generation, c); err == nil { // before the kernel, which then drops the former permissions
		if err = n.net.kernel.Reload(img); err != nil {
			err = errors.Join(err, n.net.egress.Reload(n.generation, n.policy))
			n.net.kernel.RevokeNames(n.generation)
		}
	}
	if err != nil {
		n.cfg.Denials.Reloaded(n.generation, n.policy)
		return err
	}
	n.generation, n.policy = generation, c
	n.closeDenied()
	return nil
}

// closeDenied closes the sockets that the policy in force doesn't grant. Egress closes the connections that it forwards.
func (n *Managed) closeDenied() {
	closed, err := n.net.closeSockets(n.cfg.Namespace, (*cgroupsock.Session).CloseDenied)
	report := func(format string, args ...any) {
		n.cfg.Denials.Emit(event.Event{Kind: event.Daemon, Mechanism: "netguard", Extra: map[string]string{"what": fmt.Sprintf(format, args...)}})
	}
	if closed > 0 {
		report("closed %d sockets, connected or listening, that the policy in force doesn't grant", closed)
	}
	if err != nil {
		n.cfg.Denials.Warn("session %s: connections that its policy doesn't grant may still be open: %v", n.cfg.ID, err)
		report("connections that the policy doesn't grant may still be open: %v", err)
	}
}

// CloseNested closes the sockets of a nested session that ends, in a cgroup, which other processes have by now. The nested session has no
// network of its own.
func (n *Managed) CloseNested(cgroup string) {
	if !n.net.kernel.HasSockets() {
		return
	}
	if _, err := n.net.closeSockets(n.cfg.Namespace, func(s *cgroupsock.Session, d *cgroupsock.Diag) (int, error) { return s.CloseOpenIn(d, cgroup) }); err != nil {
		n.cfg.Denials.Warn("sockets of a session nested in session %s stay open in other processes: %v", n.cfg.ID, err)
	}
}

// Counts returns the kernel's counters of the session.
func (n *Managed) Counts() cgroupsock.Counts { return n.net.kernel.Counts() }

// End stops egress, reports what is still unreported, and tears the network down. Processes left in the cgroup stay confined.
func (n *Managed) End() cgroupsock.Counts {
	counts := n.end()
	_ = n.cfg.Namespace.Close()
	return counts
}

func (n *Managed) end() cgroupsock.Counts {
	return n.cfg.Denials.EndNetwork(n.net.StopEgress, func() cgroupsock.Counts { return n.net.End(n.cfg.Namespace, false, n.cfg.Denials.Warn) })
}

// NamespaceOf returns the network namespace of a process, by its pidfd (setns(2), Linux 5.8).
func NamespaceOf(pidfd int) (namespace *os.File, err error) {
	done := make(chan error)
	forkexec.OnThread(func() {
		err := os.NewSyscallError("setns", unix.Setns(pidfd, unix.CLONE_NEWNET))
		if err == nil {
			namespace, err = os.Open("/proc/thread-self/ns/net")
		}
		done <- err
	})
	if err := <-done; err != nil {
		return nil, fmt.Errorf("find its network namespace: %w", err)
	}
	return namespace, nil
}
