package session

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/egress/control"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// network holds the sockets of a session to the policy's rules about the network: the kernel's programs on its cgroup decide about
// addresses and ports, and egress, to which they lead what depends on it, about names and what is said.
type network struct {
	program int // egress's, open while there's a kernel
	image   *cgroupsock.Image
	kernel  *cgroupsock.Session
	egress  *control.Supervisor // nil: not started

	lent   bool   // toolguardd has all that
	bundle []byte // and has given this for the session's authority
}

// held says whether this holds the session. If not, nothing of the network is granted or restricted, or others do what they can.
func (n *network) held() bool { return n != nil && (n.kernel != nil || n.lent) }

// cover says what is enforced of the rules about the network where this can be had; where it can't, what others said stands. What it
// takes is prepared then: nothing else proves that the kernel takes it.
func (n *network) cover(c *policy.Compiled, rows []policy.Coverage) []policy.Coverage {
	if os.Geteuid() != 0 {
		return rows
	}
	return coverWith(c, rows, func() error { return n.prepare(c) })
}

// coverLent is cover where toolguardd would hold the network, unless it has said why it can't.
func (n *network) coverLent(c *policy.Compiled, rows []policy.Coverage, why string) []policy.Coverage {
	return coverWith(c, rows, func() error {
		if n.lent = why == ""; !n.lent {
			return errors.New(why)
		}
		return nil
	})
}

// coverWith asks for what it takes only where there is something to decide.
func coverWith(c *policy.Compiled, rows []policy.Coverage, prepare func() error) []policy.Coverage {
	if !DecidesNet(c) {
		return rows
	}
	err := prepare()
	for i, row := range rows {
		switch {
		case row.Rule == nil || row.Rule.Net == nil:
		case err == nil:
			rows[i].Status = policy.Enforced
			rows[i].By, rows[i].Why = coverNet(c, row.Rule.Net)
		case row.Status != policy.Enforced:
			rows[i].Why += fmt.Sprintf("; the kernel's programs, which could do more, can't be used: %v", err)
		}
	}
	return rows
}

// DecidesNet says whether there is anything to decide about the network: it's neither free nor wholly refused.
func DecidesNet(c *policy.Compiled) bool {
	return !c.RefusesNet() && slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return len(l.Net.Rules()) > 0 })
}

// noSockets refuses to hand a command sockets of the network where a policy limits that: they were made outside, so that nothing here
// holds them, and even one that is connected, or listens, can be connected to whatever the session likes.
func noSockets(c *policy.Compiled, handed []int) error {
	if !c.RefusesNet() && !DecidesNet(c) {
		return nil
	}
	for _, fd := range handed {
		switch family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); {
		case errors.Is(err, unix.ENOTSOCK) || errors.Is(err, unix.EBADF): // or it's closed
		case err != nil:
			return fmt.Errorf("descriptor %d: %w", fd, os.NewSyscallError("getsockopt(SO_DOMAIN)", err))
		case family != unix.AF_UNIX:
			return fmt.Errorf("descriptor %d is a network socket, which the command could connect to any address whatever the policy says: hand it a pipe instead", fd)
		}
	}
	return nil
}

// coverNet says who enforces a rule, and what must be known of it.
func coverNet(c *policy.Compiled, r *policy.CompiledNet) (by, note string) {
	switch {
	case r.OwnServers():
		return "netguard", "also for connections to them; others on this machine may reach them, too"
	case r.Listen:
		return "netguard", "a socket on a port that the kernel chose can listen, and nobody reaches it"
	case len(r.Prefixes()) > 0 && r.Scheme == "" && len(r.Path)+len(r.Methods) == 0:
		return "netguard", ""
	case c.Intercepts() || r.Scheme != "" && r.Scheme != "https" && r.Scheme != "wss" || r.Proto != "tcp":
		return "egress", ""
	case r.Scheme == "wss":
		return "egress", "without tls_intercept a WebSocket can't be told from other requests, so it's about https as well"
	}
	return "egress", "under TLS by the server's name: what is said within to a server of several names isn't seen"
}

// prepare makes the rules and loads the programs.
func (n *network) prepare(c *policy.Compiled) (err error) {
	if err := netReady(); err != nil {
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

// netReady says what this machine lacks for it, as far as that can be told without loading programs.
func netReady() error {
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

// close gives up what cover has prepared, where no session begins.
func (n *network) close() {
	if n != nil && n.kernel != nil {
		n.kernel.Close()
		n.kernel = nil
		_ = unix.Close(n.program)
	}
}

// holdNet has the session's network held from its beginning on.
func (r *run) holdNet() error {
	if !r.net.held() {
		return nil
	}
	bundle := r.net.bundle
	if !r.net.lent {
		upstream, err := resolvers("/etc/resolv.conf")
		if err != nil {
			return fmt.Errorf("find the machine's name servers: %w", err)
		}
		b, err := r.net.begin(r.denials, r.cfg.Policy, r.number, r.group.FD(), nil, upstream)
		if err != nil {
			return err
		}
		bundle = b.Bundle
		if err := r.denials.ListenNetwork(r.net.kernel); err != nil {
			return err
		}
	}
	if r.cfg.Policy.Intercepts() {
		if err := r.handBundle(bundle); err != nil {
			return fmt.Errorf("hand the session its certificate authority: %w", err)
		}
	}
	return nil
}

// begin holds a cgroup to what was prepared, with egress in a network namespace.
func (n *network) begin(d *denials.Collector, c *policy.Compiled, number uint64, cgroup int, place *os.File, upstream []netip.AddrPort) (b control.Started, err error) {
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
func (n *network) startEgress(d *denials.Collector, o message.Instructions, place *os.File) (ports cgroupsock.Egress, err error) {
	o.Format = message.Format
	o.Originals, o.Names = n.kernel.Descriptors()
	opened := make(chan error)
	forkexec.OnThread(func() {
		err := control.EnterNetwork(place)
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
func reports(d *denials.Collector) control.Reports {
	return control.Reports{
		Denied: d.DeniedByName,
		Lost:   func(n uint64, why string) { d.Lost("egress", n, why) },
		Warn:   d.Warn,
	}
}

// closeSockets closes sockets of the session, in its network namespace, and says how many.
func (n *network) closeSockets(place *os.File, which func(*cgroupsock.Session, *cgroupsock.Diag) (int, error)) (closed int, err error) {
	done := make(chan struct{})
	forkexec.OnThread(func() {
		defer close(done)
		if err = control.EnterNetwork(place); err != nil {
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
func ClosesSockets() error {
	d, err := cgroupsock.OpenDiag()
	if err == nil {
		d.Close()
	}
	return err
}

// systemBundles are where systems keep their certificate authorities, in one file, where SSL_CERT_FILE doesn't name another.
var systemBundles = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
}

// handBundle tells the command of the session's authority. The file is in its TMPDIR and isn't its user's, so that it's without the
// privilege to write it; a session that puts another file there deceives itself alone.
func (r *run) handBundle(authority []byte) error {
	if len(authority) == 0 {
		return errors.New("egress has made none")
	}
	var system []byte
	for _, file := range append([]string{os.Getenv("SSL_CERT_FILE")}, systemBundles...) {
		if b, err := os.ReadFile(file); err == nil {
			system = b
			break
		}
	}
	file := filepath.Join(r.cfg.Policy.TmpDir, "toolguard-ca.pem")
	if v := r.cfg.Policy.CheckFS(file, policy.Read); !v.Allow {
		return fmt.Errorf("the policy doesn't let it read %s: grant read on the TMPDIR, or leave `runtime` on", file)
	}
	err := errors.Join(os.WriteFile(file, bundle(system, authority), 0o400), os.Chmod(file, 0o444))
	if err == nil && os.Geteuid() == 0 { // any other user's remains his
		err = os.Chown(file, message.Nobody, message.Nobody)
	}
	if err != nil {
		return err
	}
	for _, name := range message.BundleVars() {
		r.cmd.Env = slices.DeleteFunc(r.cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		r.cmd.Env = append(r.cmd.Env, name+"="+file)
	}
	return nil
}

// bundle is the system's bundle of authorities, in PEM, with the session's own.
func bundle(system, own []byte) []byte {
	out := bytes.TrimRight(system, "\n")
	if len(out) > 0 {
		out = append(out, '\n')
	}
	return append(out, own...)
}

// endEgress ends egress, when the session needs it no more: what is left of that reaches nothing by name.
func (r *run) endEgress() {
	if r.net != nil {
		r.net.endEgress()
	}
}

func (n *network) endEgress() {
	if n.egress != nil {
		n.egress.End()
		n.egress = nil
	}
}

// endNet ends the session's network.
func (r *run) endNet() {
	r.endEgress()
	switch end := func() cgroupsock.Counts { return r.net.end(nil, r.cfg.Linger, r.cfg.notice) }; {
	case r.net == nil || r.net.kernel == nil:
	case r.denials == nil:
		end()
	default:
		r.denials.EndNetwork(end)
	}
}

// end tears the session's network down. Sockets of the session that other processes have by now are closed,
// unless its processes may go on. What is left in the cgroup stays held.
func (n *network) end(place *os.File, linger bool, notice func(string, ...any)) cgroupsock.Counts {
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
