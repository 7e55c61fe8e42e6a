package backend

import (
	"errors"
	"fmt"
	"os"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/network"
)

// Network is what enforces the rules about the network in a run, if anything does.
type Network struct {
	network.Network

	ByDaemon bool   // toolguardd has all that
	Bundle   []byte // and has given this for the session's authority
}

// Enforces says whether this holds the session. If not, nothing of the network is granted or restricted, or others do what they can.
func (n *Network) Enforces() bool { return n != nil && (n.Loaded() || n.ByDaemon) }

// close gives up what report has prepared, where no session begins.
func (n *Network) close() {
	if n != nil {
		n.Network.Close()
	}
}

// report says what is enforced of the rules about the network where this can be had; where it can't, what others said stands. What it
// takes is prepared then: nothing else proves that the kernel takes it.
func (n *Network) report(c *policy.Compiled, rows []policy.Enforceability) []policy.Enforceability {
	if os.Geteuid() != 0 {
		return rows
	}
	return reportWith(c, rows, func() error { return n.Prepare(c) })
}

// reportByDaemon is report where toolguardd would hold the network, unless it has said why it can't.
func (n *Network) reportByDaemon(c *policy.Compiled, rows []policy.Enforceability, why string) []policy.Enforceability {
	return reportWith(c, rows, func() error {
		if n.ByDaemon = why == ""; !n.ByDaemon {
			return errors.New(why)
		}
		return nil
	})
}

// reportWith asks for what it takes only where there is something to decide.
func reportWith(c *policy.Compiled, rows []policy.Enforceability, prepare func() error) []policy.Enforceability {
	if !network.Decides(c) {
		return rows
	}
	err := prepare()
	for i, row := range rows {
		switch {
		case row.Rule == nil || row.Rule.Net == nil:
		case err == nil:
			rows[i].Status = policy.Enforced
			rows[i].By, rows[i].Why = reportNet(c, row.Rule.Net)
		case row.Status != policy.Enforced:
			rows[i].Why += fmt.Sprintf("; the kernel's programs, which could do more, can't be used: %v", err)
		}
	}
	return rows
}

// reportNet says who enforces a rule, and what must be known of it.
func reportNet(c *policy.Compiled, r *policy.CompiledNet) (by, note string) {
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
