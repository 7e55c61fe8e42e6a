package session

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/loader/cgroupsock"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/network"
)

// heldNetwork is what enforces the rules about the network in a run, if anything does.
type heldNetwork struct {
	network.Network

	lent   bool   // toolguardd has all that
	bundle []byte // and has given this for the session's authority
}

// held says whether this holds the session. If not, nothing of the network is granted or restricted, or others do what they can.
func (n *heldNetwork) held() bool { return n != nil && (n.Loaded() || n.lent) }

// close gives up what cover has prepared, where no session begins.
func (n *heldNetwork) close() {
	if n != nil {
		n.Network.Close()
	}
}

// cover says what is enforced of the rules about the network where this can be had; where it can't, what others said stands. What it
// takes is prepared then: nothing else proves that the kernel takes it.
func (n *heldNetwork) cover(c *policy.Compiled, rows []policy.Coverage) []policy.Coverage {
	if os.Geteuid() != 0 {
		return rows
	}
	return coverWith(c, rows, func() error { return n.Prepare(c) })
}

// coverLent is cover where toolguardd would hold the network, unless it has said why it can't.
func (n *heldNetwork) coverLent(c *policy.Compiled, rows []policy.Coverage, why string) []policy.Coverage {
	return coverWith(c, rows, func() error {
		if n.lent = why == ""; !n.lent {
			return errors.New(why)
		}
		return nil
	})
}

// coverWith asks for what it takes only where there is something to decide.
func coverWith(c *policy.Compiled, rows []policy.Coverage, prepare func() error) []policy.Coverage {
	if !network.Decides(c) {
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

// noSockets refuses to hand a command sockets of the network where a policy limits that: they were made outside, so that nothing here
// holds them, and even one that is connected, or listens, can be connected to whatever the session likes.
func noSockets(c *policy.Compiled, handed []int) error {
	if !c.RefusesNet() && !network.Decides(c) {
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

// holdNet has the session's network held from its beginning on.
func (r *run) holdNet() error {
	if !r.net.held() {
		return nil
	}
	bundle := r.net.bundle
	if !r.net.lent {
		upstream, err := network.Resolvers("/etc/resolv.conf")
		if err != nil {
			return fmt.Errorf("find the machine's name servers: %w", err)
		}
		b, err := r.net.Enforce(r.denials, r.cfg.Policy, r.number, r.group.FD(), nil, upstream)
		if err != nil {
			return err
		}
		bundle = b.Bundle
		if err := r.net.Listen(r.denials.ListenNetwork); err != nil {
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

// handBundle tells the command of the session's authority.
func (r *run) handBundle(authority []byte) error {
	file, err := network.WriteBundle(r.cfg.Policy, authority)
	if err != nil {
		return err
	}
	for _, name := range message.BundleVars() {
		r.cmd.Env = slices.DeleteFunc(r.cmd.Env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		r.cmd.Env = append(r.cmd.Env, name+"="+file)
	}
	return nil
}

// endEgress ends egress.
func (r *run) endEgress() {
	if r.net != nil {
		r.net.EndEgress()
	}
}

// endNet ends the session's network.
func (r *run) endNet() {
	r.endEgress()
	switch end := func() cgroupsock.Counts { return r.net.End(nil, r.cfg.Linger, r.cfg.notice) }; {
	case r.net == nil || !r.net.Loaded():
	case r.denials == nil:
		end()
	default:
		r.denials.EndNetwork(end)
	}
}
