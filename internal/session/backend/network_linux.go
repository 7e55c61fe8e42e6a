package backend

import (
	"errors"
	"fmt"
	"os"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/network"
)

// Network enforces the network rules of a run, if possible.
type Network struct {
	network.Network

	ByDaemon bool   // toolguardd enforces them
	Bundle   []byte // the session's certificate authority, from toolguardd
}

// Enforces reports whether the session's network rules are enforced by it. If not, the policy has none, or other mechanisms enforce what they can.
func (n *Network) Enforces() bool { return n != nil && (n.Loaded() || n.ByDaemon) }

// close releases what report has prepared, if no session begins.
func (n *Network) close() {
	if n != nil {
		n.Network.Close()
	}
}

// report updates the rows of network rules, if they can be enforced by it; otherwise those of other mechanisms stay. It loads the programs,
// because only that shows whether the kernel accepts them.
func (n *Network) report(c *policy.Compiled, rows []policy.Enforceability) []policy.Enforceability {
	if os.Geteuid() != 0 {
		return rows
	}
	return reportWith(c, rows, func() error { return n.Prepare(c) })
}

// reportByDaemon is report for toolguardd, which enforces the rules unless why is the reason why it can't.
func (n *Network) reportByDaemon(c *policy.Compiled, rows []policy.Enforceability, why string) []policy.Enforceability {
	return reportWith(c, rows, func() error {
		if n.ByDaemon = why == ""; !n.ByDaemon {
			return errors.New(why)
		}
		return nil
	})
}

// reportWith calls prepare only if the policy has network rules.
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
			rows[i].Why += fmt.Sprintf("; the BPF programs, which could enforce more, can't be used: %v", err)
		}
	}
	return rows
}

// reportNet returns the mechanism that enforces a rule, and a note about it.
func reportNet(c *policy.Compiled, r *policy.CompiledNet) (by, note string) {
	switch {
	case r.OwnServers():
		return "netguard", "also for connections to them; other processes on this machine may reach them, too"
	case r.Listen:
		return "netguard", "a socket on a port that the kernel chose can listen, and no client can reach it"
	case len(r.Prefixes()) > 0 && r.Scheme == "" && len(r.Path)+len(r.Methods) == 0:
		return "netguard", ""
	case c.Intercepts() || r.Scheme != "" && r.Scheme != "https" && r.Scheme != "wss" || r.Proto != "tcp":
		return "egress", ""
	case r.Scheme == "wss":
		return "egress", "without tls_intercept a WebSocket can't be distinguished from other requests, so the rule applies to https, too"
	}
	return "egress", "under TLS by the server's name: requests to other names of the same server aren't distinguished"
}
