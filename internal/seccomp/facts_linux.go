package seccomp

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// facts is what the filters need to know of a policy.
type facts struct {
	abi        int  // the kernel's Landlock ABI
	fs         bool // some authority grants files by path
	exec       bool // some authority grants execution by path or by program
	namespaces bool // every authority allows new namespaces
	denies     bool // some authority denies system calls by name
	diag       bool // NETLINK_SOCK_DIAG, which no policy grants, may be used
	net        network
}

// network is what is left of the network after every authority's word.
type network struct {
	restricted bool // some authority declares net
	stream     bool // something is granted over TCP, to connect to or to listen on
	datagram   bool // something is granted over UDP
	listen     bool // something is granted to listen on
	held       bool // each address and port is decided about elsewhere
}

// seesRings tells whether others decide about all that can be done by io_uring. Filters alone tell sockets and their uses apart where Landlock
// decides, and where only ports are decided about; and they alone know the calls that a policy denies by name.
func (f facts) seesRings() bool {
	return f.abi >= Whole && !f.denies && (!f.net.restricted || f.net.nothing() || f.net.held)
}

// RefusesRings tells whether io_uring stays refused although every authority that speaks of system calls allows it (Unseen).
func RefusesRings(c *policy.Compiled, o Others) bool {
	allowed := false
	for _, l := range c.Layers {
		if !declares(l.Syscalls) {
			continue
		}
		if !slices.ContainsFunc(l.Syscalls.Allow, func(name string) bool { return slices.Contains(rings, name) }) {
			return false
		}
		allowed = true
	}
	return allowed && !factsOf(c, o).seesRings()
}

func (n network) nothing() bool { return n.restricted && !n.stream && !n.datagram }

func factsOf(c *policy.Compiled, o Others) facts {
	f := facts{abi: o.ABI, net: network{stream: true, datagram: true, listen: true}}
	spoke := false
	f.namespaces = true
	for _, l := range c.Layers {
		if l.Authority == policy.Builtin {
			continue
		}
		spoke = true
		f.namespaces = f.namespaces && l.Namespaces
		f.denies = f.denies || len(l.Syscalls.Deny) > 0
		f.addFS(l)
		f.addNet(l)
	}
	f.namespaces = f.namespaces && spoke
	if o.Net && !f.net.nothing() {
		f.net.held, f.net.stream, f.net.datagram = true, true, true // a name is asked for by UDP or TCP, whatever is granted about it
	}
	return f
}

func (f *facts) addFS(l *policy.Layer) {
	if l.Stance[policy.Commands] == policy.Deny {
		f.exec = true
	}
	if l.Stance[policy.FS] != policy.Deny {
		return
	}
	f.fs = true
	f.exec = f.exec || !executesAnything(l)
}

// executesAnything tells whether the layer grants execution of the whole file tree, and takes it away nowhere.
func executesAnything(l *policy.Layer) bool {
	whole := false
	for _, r := range l.FS.Rules() {
		if r.FS.Caps&policy.Execute == 0 {
			return false
		}
		whole = whole || r.FS.Path == "/" && r.FS.Last == ""
	}
	return whole
}

func (f *facts) addNet(l *policy.Layer) {
	if l.Stance[policy.Net] != policy.Deny {
		return
	}
	var stream, datagram, listen bool
	for _, r := range l.Net.Rules() {
		if !r.Net.Allow {
			continue
		}
		udp := r.Net.Protocol == "udp"
		stream = stream || !udp
		datagram = datagram || udp
		listen = listen || r.Net.Listen
	}
	f.net.restricted = true
	f.net.stream = f.net.stream && stream
	f.net.datagram = f.net.datagram && datagram
	f.net.listen = f.net.listen && listen
}

// refuseUnix tells whether sockets that could reach a unix socket of a process outside must be refused, because Landlock
// can't decide: by path below ABI 9 (LANDLOCK_ACCESS_FS_RESOLVE_UNIX), by abstract name below ABI 6
// (LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET).
func (f facts) refuseUnix() bool {
	return f.fs && f.abi < 9 || f.net.restricted && f.abi < 6
}
