package network

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/egress/control"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// Network enforces a session's network rules. The BPF programs on its cgroup decide about addresses and ports. They redirect connections
// that depend on names or content to egress.
type Network struct {
	program int // the descriptor of egress's program, open while kernel isn't nil
	image   *cgroupsock.Image
	kernel  *cgroupsock.Session
	egress  *control.Supervisor // nil: none runs
}

// firstGeneration is the generation of a session's first policy.
const firstGeneration = 1

// reporter receives the reports of egress.
type reporter interface {
	DeniedByName(*message.Denial)
	Lost(mechanism string, n uint64, why string)
	Warn(format string, args ...any)
}

// Loaded reports whether the BPF programs are loaded, from Prepare to End.
func (n *Network) Loaded() bool { return n.kernel != nil }

// Prepare compiles the rules and loads the BPF programs.
func (n *Network) Prepare(c *policy.Compiled) (err error) {
	if err := Ready(); err != nil {
		return err
	}
	if n.image, err = cgroupsock.NewImage(c, firstGeneration); err != nil {
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

// Ready returns why this machine can't enforce network rules, as far as that is known without loading programs.
func Ready() error {
	if os.Geteuid() != 0 {
		return errors.New("only root may attach programs to a cgroup")
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

// Close releases what Prepare loaded, if no session begins.
func (n *Network) Close() {
	if n.kernel != nil {
		n.kernel.Close()
		n.kernel = nil
		_ = unix.Close(n.program)
	}
}

// Enforce enforces the prepared rules on a cgroup, with egress in a network namespace.
func (n *Network) Enforce(d reporter, c *policy.Compiled, number uint64, cgroup int, namespace *os.File, upstream []netip.AddrPort) (b control.Started, err error) {
	ports, err := n.startEgress(d, message.Instructions{Policy: c, Generation: firstGeneration, Upstream: upstream}, namespace)
	if err != nil {
		return b, err
	}
	if err := n.kernel.Begin(number, cgroup, n.image, ports); err != nil {
		return b, fmt.Errorf("enforce the session's network rules: %w", err)
	}
	if b = n.egress.Ready(); b.Err != nil {
		return b, fmt.Errorf("start egress: %w", b.Err)
	}
	return b, nil
}

// startEgress opens the ports of egress and starts it.
func (n *Network) startEgress(d reporter, o message.Instructions, namespace *os.File) (ports cgroupsock.Egress, err error) {
	o.Format = message.Format
	o.Originals, o.Names = n.kernel.Descriptors()
	opened := make(chan error)
	forkexec.OnThread(func() {
		err := control.EnterNamespace(namespace)
		if err == nil {
			ports, err = control.OpenPorts(&o)
		}
		opened <- err
	})
	if err := <-opened; err != nil {
		return ports, fmt.Errorf("open egress's ports: %w", err)
	}
	n.egress = control.Start(n.program, namespace, o, reports(d))
	return ports, nil
}

// reports returns callbacks that pass on the reports of egress.
func reports(d reporter) control.Reports {
	return control.Reports{
		Denied: d.DeniedByName,
		Lost:   func(n uint64, why string) { d.Lost("egress", n, why) },
		Warn:   d.Warn,
	}
}

// closeSockets closes sockets of the session in its network namespace, and returns how many.
func (n *Network) closeSockets(namespace *os.File, which func(*cgroupsock.Session, *cgroupsock.Diag) (int, error)) (closed int, err error) {
	done := make(chan struct{})
	forkexec.OnThread(func() {
		defer close(done)
		if err = control.EnterNamespace(namespace); err != nil {
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

// CanCloseSockets returns why this machine can't close a session's sockets, if it can't.
func CanCloseSockets() error {
	d, err := cgroupsock.OpenDiag()
	if err == nil {
		d.Close()
	}
	return err
}

// Detach detaches the programs from a cgroup.
func (n *Network) Detach(cgroup int) error { return n.kernel.Detach(cgroup) }

// Listen passes the kernel's half of the network to a function that collects its denials.
func (n *Network) Listen(listen func(*cgroupsock.Session) error) error { return listen(n.kernel) }

// StopEgress stops egress. Processes left in the session then reach nothing by name.
func (n *Network) StopEgress() {
	if n.egress != nil {
		n.egress.End()
		n.egress = nil
	}
}

// End tears the session's network down. It closes sockets of the session in other processes, unless the session's own
// processes may linger. Processes left in the cgroup stay confined.
func (n *Network) End(namespace *os.File, linger bool, notice func(string, ...any)) cgroupsock.Counts {
	if n.kernel.HasSockets() && !linger {
		if _, err := n.closeSockets(namespace, (*cgroupsock.Session).CloseOpen); err != nil {
			notice("sockets of the session stay open in other processes: %v", err)
		}
	}
	counts, err := n.kernel.End()
	if err != nil {
		notice("some denials of the network are unreported: %v", err)
	}
	n.kernel = nil
	_ = unix.Close(n.program)
	return counts
}
