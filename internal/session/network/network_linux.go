package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/egress/control"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Network is what enforces a session's rules about the network: the kernel's programs on its cgroup decide about addresses and ports,
// and egress, to which they redirect what depends on it, about names and what is sent.
type Network struct {
	program int // egress's, open while there's a kernel
	image   *cgroupsock.Image
	kernel  *cgroupsock.Session
	egress  *control.Supervisor // nil: not started
}

// reporter gets what egress reports.
type reporter interface {
	DeniedByName(*message.Denial)
	Lost(mechanism string, n uint64, why string)
	Warn(format string, args ...any)
}

// Loaded reports whether the programs are loaded: since prepare, until the end.
func (n *Network) Loaded() bool { return n.kernel != nil }

// Decides says whether there is anything to decide about the network: it's neither free nor wholly refused.
func Decides(c *policy.Compiled) bool {
	return !c.DeniesNet() && slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return len(l.Net.Rules()) > 0 })
}

// Prepare makes the rules and loads the programs.
func (n *Network) Prepare(c *policy.Compiled) (err error) {
	if err := Ready(); err != nil {
		return err
	}
	if n.image, err = cgroupsock.NewImage(c, 1); err != nil {
		return err
	}
	if n.program, err = control.OpenProgram(); err != nil {
		return err
	}
	if n.kernel, err = cgroupsock.Load(); err != nil {
		_ = unix.Close(n.program)
	}
	return err
}

// Ready says what this machine lacks for it, as far as that is known without loading programs.
func Ready() error {
	if os.Geteuid() != 0 {
		return errors.New("only root may put programs on a cgroup")
	}
	if f := cgroup.Probe(); f.Base == "" {
		return errors.New(f.Why)
	}
	program, err := control.OpenProgram()
	if err == nil {
		_ = unix.Close(program)
	}
	return err
}

// Close gives up what was prepared, where no session begins.
func (n *Network) Close() {
	if n.kernel != nil {
		n.kernel.Close()
		n.kernel = nil
		_ = unix.Close(n.program)
	}
}

// Enforce holds a cgroup to what was prepared, with egress in a network namespace.
func (n *Network) Enforce(d reporter, c *policy.Compiled, number uint64, cgroup int, place *os.File, upstream []netip.AddrPort) (b control.Started, err error) {
	ports, err := n.startEgress(d, message.Instructions{Policy: c, Generation: 1, Upstream: upstream}, place)
	if err != nil {
		return b, err
	}
	if err := n.kernel.Begin(number, cgroup, n.image, ports); err != nil {
		return b, fmt.Errorf("hold the session's network: %w", err)
	}
	if b = n.egress.Ready(); b.Err != nil {
		return b, fmt.Errorf("start egress: %w", b.Err)
	}
	return b, nil
}

// startEgress begins to start egress, to decide by the policy of its instructions.
func (n *Network) startEgress(d reporter, o message.Instructions, place *os.File) (ports cgroupsock.Egress, err error) {
	o.Format = message.Format
	o.Originals, o.Names = n.kernel.Descriptors()
	opened := make(chan error)
	forkexec.OnThread(func() {
		err := control.EnterNamespace(place)
		if err == nil {
			ports, err = control.OpenPorts(&o)
		}
		opened <- err
	})
	if err := <-opened; err != nil {
		return ports, fmt.Errorf("open egress's ports: %w", err)
	}
	n.egress = control.Start(n.program, place, o, reports(d))
	return ports, nil
}

// reports has what egress reports collected.
func reports(d reporter) control.Reports {
	return control.Reports{
		Denied: d.DeniedByName,
		Lost:   func(n uint64, why string) { d.Lost("egress", n, why) },
		Warn:   d.Warn,
	}
}

// closeSockets closes sockets of the session, in its network namespace, and says how many.
func (n *Network) closeSockets(place *os.File, which func(*cgroupsock.Session, *cgroupsock.Diag) (int, error)) (closed int, err error) {
	done := make(chan struct{})
	forkexec.OnThread(func() {
		defer close(done)
		if err = control.EnterNamespace(place); err != nil {
			return
		}
		var d *cgroupsock.Diag
		if d, err = cgroupsock.OpenDiag(); err == nil {
			closed, err = which(n.kernel, d)
			d.Close()
		}
	})
	<-done
	return closed, err
}

// ClosesSockets says why this machine can't close a session's sockets, if it can't.
func CanCloseSockets() error {
	d, err := cgroupsock.OpenDiag()
	if err == nil {
		d.Close()
	}
	return err
}

// Detach takes the programs off a cgroup.
func (n *Network) Detach(cgroup int) error { return n.kernel.Detach(cgroup) }

// Listen has the kernel's denials collected by listen.
func (n *Network) Listen(listen func(*cgroupsock.Session) error) error { return listen(n.kernel) }

// EndEgress ends egress, when the session needs it no more: what is left of that reaches nothing by name.
func (n *Network) StopEgress() {
	if n.egress != nil {
		n.egress.End()
		n.egress = nil
	}
}

// End tears the session's network down. Sockets of the session that other processes have by now are closed,
// unless its processes may go on. What is left in the cgroup stays held.
func (n *Network) End(place *os.File, linger bool, notice func(string, ...any)) cgroupsock.Counts {
	if n.kernel.HasSockets() && !linger {
		if _, err := n.closeSockets(place, (*cgroupsock.Session).CloseOpen); err != nil {
			notice("sockets of the session that others have stay open: %v", err)
		}
	}
	counts, err := n.kernel.End()
	if err != nil {
		notice("not all that was refused of the network could be told: %v", err)
	}
	n.kernel = nil
	_ = unix.Close(n.program)
	return counts
}
