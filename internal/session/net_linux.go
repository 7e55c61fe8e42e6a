package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/cgroup"
	"github.com/toolguard/toolguard/internal/egress/link"
	"github.com/toolguard/toolguard/internal/netguard"
	"github.com/toolguard/toolguard/internal/policy"
)

// network holds the sockets of a session to the policy's rules about the network: the kernel's programs on its cgroup decide about
// addresses and ports, and egress, to which they lead what depends on it, about names and what is said.
type network struct {
	program int // egress's, open while there's a kernel
	image   *netguard.Image
	kernel  *netguard.Session
	egress  *egressProcess // nil: not started
}

// held says whether this holds the session. If not, nothing of the network is granted or restricted, or others do what they can.
func (n *network) held() bool { return n != nil && n.kernel != nil }

// cover says what is enforced of the rules about the network where this can be had; where it can't, what others said stands. What it
// takes is prepared then: nothing else proves that the kernel takes it.
func (n *network) cover(c *policy.Compiled, rows []policy.Coverage) []policy.Coverage {
	if !decidesNet(c) || os.Geteuid() != 0 {
		return rows
	}
	err := n.prepare(c)
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

// decidesNet says whether there is anything to decide about the network: it's neither free nor wholly refused.
func decidesNet(c *policy.Compiled) bool {
	rules := 0
	for _, l := range c.Layers {
		all := l.Net.Rules()
		rules += len(all)
		if l.Stance[policy.Net] == policy.Deny && !slices.ContainsFunc(all, func(r *policy.Rule) bool { return r.Net.Allow }) {
			return false
		}
	}
	return rules > 0
}

// coverNet says who enforces a rule, and what must be known of it.
func coverNet(c *policy.Compiled, r *policy.CompiledNet) (by, note string) {
	switch {
	case r.Listen:
		return "netguard", "a socket on a port that the kernel chose can listen, and nobody reaches it"
	case len(r.Prefixes()) > 0 && r.Scheme == "" && len(r.Path)+len(r.Methods) == 0:
		return "netguard", ""
	case c.Intercepts() || r.Scheme != "" && r.Scheme != "https" && r.Scheme != "wss" || r.Proto != "tcp":
		return "egress", ""
	}
	return "egress", "under TLS by the server's name: what is said within to a server of several names isn't seen"
}

// prepare makes the rules and loads the programs.
func (n *network) prepare(c *policy.Compiled) (err error) {
	if err := netReady(); err != nil {
		return err
	}
	if n.image, err = netguard.NewImage(c, 1); err != nil {
		return err
	}
	if n.program, err = openEgress(); err != nil {
		return err
	}
	if n.kernel, err = netguard.Load(); err != nil {
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
	program, err := openEgress()
	if err == nil {
		_ = unix.Close(program)
	}
	return err
}

// close gives up what cover has prepared, where no session begins.
func (n *network) close() {
	if n.held() {
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
	o := link.Mandate{Format: link.Format, Policy: r.cfg.Policy}
	var err error
	if o.Upstream, err = resolvers("/etc/resolv.conf"); err != nil {
		return fmt.Errorf("find the machine's name servers: %w", err)
	}
	o.Originals, o.Names = r.net.kernel.Descriptors()
	ports, err := openPorts(&o)
	if err != nil {
		return fmt.Errorf("open egress's ports: %w", err)
	}
	r.net.egress = startEgress(r.net.program, o, r.denials)
	if err := r.net.kernel.Begin(r.number, r.group.FD(), r.net.image, ports); err != nil {
		return fmt.Errorf("hold the session's network: %w", err)
	}
	r.denials.hearNet(r.net.kernel.Counts)
	if err := r.net.kernel.Listen(r.denials.refusedNet); err != nil {
		return err
	}
	authority, err := r.net.egress.ready()
	if err != nil {
		return fmt.Errorf("start egress: %w", err)
	}
	if r.cfg.Policy.Intercepts() {
		if err := r.handBundle(authority); err != nil {
			return fmt.Errorf("hand the session its certificate authority: %w", err)
		}
	}
	return nil
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
	err := errors.Join(os.WriteFile(file, bundle(system, authority), 0o400), os.Chmod(file, 0o444), os.Chown(file, link.Nobody, link.Nobody))
	if err != nil {
		return err
	}
	for _, name := range link.BundleVars() {
		r.cmd.env = slices.DeleteFunc(r.cmd.env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		r.cmd.env = append(r.cmd.env, name+"="+file)
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
	if r.net != nil && r.net.egress != nil {
		r.net.egress.end()
		r.net.egress = nil
	}
}

// endNet takes in what is still told of the session's network, and gives it up. What is left in the cgroup stays held.
func (r *run) endNet() {
	r.endEgress()
	if !r.net.held() {
		return
	}
	if r.denials != nil {
		r.denials.hearNet(nil)
	}
	counts, err := r.net.kernel.End()
	if err != nil {
		r.cfg.notice("not all that was refused of the network could be told: %v", err)
	}
	r.net.kernel = nil
	_ = unix.Close(r.net.program)
	if r.denials != nil {
		r.denials.endNet(counts)
	}
}
