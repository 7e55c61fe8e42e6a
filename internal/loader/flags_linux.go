package loader

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// Flags are what a policy can allow that is no rule about a path or a program.
type Flags uint32

// The flags of bpf/lib/session.h.
const (
	flagNamespaces Flags = 1 << iota
	flagEnding
	flagStream
	flagDatagram
	flagNetFree
	flagBPF
	flagPerf
	flagModules
	flagIOUring
)

// Sockets are the flags of a session whose every address and port somebody else decides about: it may make internet sockets of
// both kinds.
const Sockets = flagStream | flagDatagram

// named are the flags that the names of system calls stand for. The filter of system calls tells those of a group apart.
var named = []struct {
	flag  Flags
	calls []string
}{
	{flagBPF, []string{"bpf"}},
	{flagPerf, []string{"perf_event_open"}},
	{flagModules, []string{"init_module", "finit_module", "kexec_load", "kexec_file_load"}},
	{flagIOUring, []string{"io_uring_setup"}},
}

// FlagsOf is what every authority of a policy allows.
func FlagsOf(c *policy.Compiled) Flags {
	flags := flagNamespaces | flagStream | flagDatagram | flagNetFree
	spoke := false
	for _, l := range c.Layers {
		if l.Authority == policy.Builtin {
			continue
		}
		spoke = true
		if !l.Namespaces {
			flags &^= flagNamespaces
		}
		if l.Stance[policy.Net] == policy.Deny {
			flags &^= flagNetFree
			flags &= granted(l.Net.Rules()) | ^(flagStream | flagDatagram)
		}
	}
	if !spoke {
		flags &^= flagNamespaces
	}
	for _, n := range named {
		if slices.ContainsFunc(n.calls, func(call string) bool { return allows(c, call) }) {
			flags |= n.flag
		}
	}
	return flags
}

// granted are the kinds of internet sockets that net rules have a use for.
func granted(rules []*policy.Rule) (flags Flags) {
	for _, r := range rules {
		switch {
		case !r.Net.Allow:
		case r.Net.Protocol == "udp":
			flags |= flagDatagram
		default:
			flags |= flagStream
		}
	}
	return flags
}

// allows reports whether every authority that says something about system calls allows this one by name, and any does.
func allows(c *policy.Compiled, call string) bool {
	any := false
	for _, l := range c.Layers {
		s := l.Syscalls
		if s.Profile == "" && len(s.Allow) == 0 && len(s.Deny) == 0 {
			continue
		}
		if !slices.Contains(s.Allow, call) {
			return false
		}
		any = true
	}
	return any
}
