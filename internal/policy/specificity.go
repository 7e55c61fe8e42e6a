package policy

import (
	"cmp"
	"strings"
)

// This file decides which of two matching rules wins. For paths, package fspath does.

// CompareNet compares two matching rules: positive if a is more specific.
func CompareNet(a, b *Rule) int {
	return cmp.Or(
		cmp.Compare(a.Net.Parts(), b.Net.Parts()),
		cmp.Compare(a.Net.HostRank(), b.Net.HostRank()),
		cmp.Compare(a.Index, b.Index),
	)
}

// Parts returns how many parts of a target a rule names.
func (n *CompiledNet) Parts() int {
	p := len(n.Path)
	if n.Scheme != "" {
		p++
	}
	if n.Port != 0 {
		p++
	}
	return p
}

// HostRank orders hosts that match the same target: an exact one before longer ranges or wildcards before shorter ones.
func (n *CompiledNet) HostRank() int {
	switch {
	case n.Name != "":
		return 1 << 16
	case n.Suffix != "":
		return 1 + len(n.Suffix)
	case !n.Prefix.IsValid():
		return 0
	case n.Prefix.IsSingleIP():
		return 1 << 16
	}
	return 1 + n.Prefix.Bits() + 128 - n.Prefix.Addr().BitLen() // of IPv4 as if it were written in IPv6
}

// compareEnv compares two matching rules: positive if a is more specific.
func compareEnv(a, b *Rule) int {
	literal := func(r *Rule) int { return len(strings.TrimSuffix(r.Env.Name, "*")) }
	exact := func(r *Rule) int { return literal(r) - len(r.Env.Name) } // 0, or -1 for a prefix
	return cmp.Or(cmp.Compare(literal(a), literal(b)), cmp.Compare(exact(a), exact(b)), cmp.Compare(a.Index, b.Index))
}
