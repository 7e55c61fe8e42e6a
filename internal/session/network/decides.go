package network

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// Decides reports whether a policy has network rules to enforce: the network is neither completely allowed nor
// completely denied.
func Decides(c *policy.Compiled) bool {
	return !c.DeniesNet() && slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool { return len(l.Net.Rules()) > 0 })
}
