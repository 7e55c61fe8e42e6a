package landlock

import (
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
)

// ReportPorts is the part of Report about the network and system calls, for a backend that uses Landlock only for ports.
func ReportPorts(c *policy.Compiled, abi int) []policy.Enforceability {
	k := &reporter{c: c, abi: abi}
	for _, l := range c.Layers {
		k.net(l)
		k.syscalls(l)
	}
	return k.rows
}

// NewPortsPlan is the part of NewPlan about the network; nil if there is nothing to enforce.
func NewPortsPlan(c *policy.Compiled, abi int) *Plan {
	p := &Plan{ABI: min(abi, newestABI)}
	if p.ABI < 4 {
		return nil
	}
	for _, l := range c.Layers {
		if !restricts(l, policy.Net) {
			continue
		}
		// A ruleset that doesn't handle REFER denies it.
		rs := p.grantRefer(Ruleset{Authority: l.Authority, FS: ll.AccessFSRefer})
		rs.Net, rs.Ports = handledNet(p.ABI), portsOf(l.Net.Rules(), p.ABI)
		p.Rulesets = append(p.Rulesets, rs)
	}
	if len(p.Rulesets) == 0 {
		return nil
	}
	p.Inner = p.grantRefer(Ruleset{FS: ll.AccessFSRefer})
	return p
}
