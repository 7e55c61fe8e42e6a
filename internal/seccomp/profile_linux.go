package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// declares reports whether an authority declares anything about system calls.
func declares(s policy.Syscalls) bool { return s.Profile != "" || len(s.Allow) > 0 || len(s.Deny) > 0 }

// appendListed appends the calls that the profiles and the policy's own names deny. Each authority that declares system calls
// removes names from its profile's list and adds some. A call that any authority denies is denied. If none declares any, the
// default profile applies. What isn't allowable is always denied; Validate has rejected policies that allow it.
func appendListed(out []denial, c *policy.Compiled, f requirements) []denial {
	spoke := false
	for _, l := range c.Layers {
		if declares(l.Syscalls) {
			spoke = true
			out = appendOf(out, l.Syscalls, f)
		}
	}
	if !spoke {
		out = appendOf(out, policy.Syscalls{}, f)
	}
	return out
}

// appendOf is appendListed for one authority.
func appendOf(out []denial, s policy.Syscalls, f requirements) []denial {
	for _, name := range s.Deny {
		cause := &Cause{ID: "syscalls.deny", Text: "the policy denies " + name, Position: s.Position}
		out = append(out, denial{name: name, Cause: cause, errno: unix.EPERM})
	}
	for _, set := range profile(s.Profile, f.abi) {
		for _, g := range set {
			cause := &Cause{ID: g.id, Text: g.text}
			for _, name := range g.names {
				switch {
				case !slices.Contains(s.Allow, name) || whyNotAllowable(name) != "":
					out = append(out, denial{name: name, Cause: cause, errno: g.errno})
				case slices.Contains(rings, name) && !f.allowsRings():
					out = append(out, denial{name: name, Cause: &Cause{ID: g.id, Text: RingsDenied, Position: s.Position}, errno: g.errno})
				}
			}
		}
	}
	return out
}

func profile(name string, level int) [][]group {
	sets := [][]group{always}
	if level < FullMediation {
		sets = append(sets, hiddenAttributes)
	}
	if name == "strict" {
		sets = append(sets, strict)
	}
	return sets
}

// strictPtrace reports whether any authority denies that processes trace each other.
func strictPtrace(c *policy.Compiled) bool {
	return slices.ContainsFunc(c.Layers, func(l *policy.Layer) bool {
		return l.Syscalls.Profile == "strict" && !slices.Contains(l.Syscalls.Allow, "ptrace")
	})
}
