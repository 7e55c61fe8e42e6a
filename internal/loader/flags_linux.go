package loader

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// Flags are the permissions of a policy that aren't rules about paths or programs.
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

// Sockets are the flags of a session about whose addresses and ports package cgroupsock decides: it may make internet sockets of both
// kinds.
const Sockets = flagStream | flagDatagram

// callFlags has the flags by names of system calls. The seccomp filter distinguishes the calls of one flag.
var callFlags = []struct {
	flag  Flags
	calls []string
}{
	{flagBPF, []string{"bpf"}},
	{flagPerf, []string{"perf_event_open"}},
	{flagModules, []string{"init_module", "finit_module", "kexec_load", "kexec_file_load"}},
	{flagIOUring, []string{"io_uring_setup"}},
}

// FlagsOf returns the flags that every layer of a policy allows.
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
		if l.Defaults[policy.Net] == policy.Deny {
			flags &^= flagNetFree
			flags &= socketFlags(l.Net.Rules()) | ^(flagStream | flagDatagram)
		}
	}
	if !spoke {
		flags &^= flagNamespaces
	}
	for _, n := range callFlags {
		if slices.ContainsFunc(n.calls, func(call string) bool { return allows(c, call) }) {
			flags |= n.flag
		}
	}
	return flags
}

// socketFlags returns the kinds of internet sockets that net rules need.
func socketFlags(rules []*policy.Rule) (flags Flags) {
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

// allows reports whether some layer allows the system call by name, and every layer with rules about system calls does.
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
