package seccomp

import (
	"os"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// requirements is what the filters need to know of a policy.
type requirements struct {
	abi         int    // the kernel's Landlock ABI
	fs          bool   // some authority grants files by path
	memory      string // why no memory file may be one that can be executed; "": it may
	sealed      bool   // none is without MFD_EXEC
	namespaces  bool   // every authority allows new namespaces
	deniesNames bool   // some authority denies system calls by name
	diag        bool   // NETLINK_SOCK_DIAG, which no policy grants, may be used
	audit       bool   // so may NETLINK_AUDIT
	net         network
}

// network is what is left of the network after every authority's word.
type network struct {
	restricted       bool // some authority declares net
	stream           bool // something is granted over TCP, to connect to or to listen on
	datagram         bool // something is granted over UDP
	listen           bool // something is granted to listen on
	decidedElsewhere bool // each address and port is decided about elsewhere
}

// allowsRings tells whether others decide about all that can be done by io_uring. Filters alone tell sockets and their uses apart where Landlock
// decides, and where only ports are decided about; and they alone know the calls that a policy denies by name.
func (f requirements) allowsRings() bool {
	return f.abi >= FullMediation && !f.deniesNames && (!f.net.restricted || f.net.nothing() || f.net.decidedElsewhere)
}

// DeniesRings tells whether io_uring stays refused although every authority that speaks of system calls allows it (Unseen).
func DeniesRings(c *policy.Compiled, o Backend) bool {
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
	return allowed && !requirementsOf(c, o).allowsRings()
}

// DeniesUnixSockets tells whether a session can make no unix socket, whatever its policy grants.
func DeniesUnixSockets(c *policy.Compiled, o Backend) bool { return requirementsOf(c, o).denyUnix() }

func (n network) nothing() bool { return n.restricted && !n.stream && !n.datagram }

func requirementsOf(c *policy.Compiled, o Backend) requirements {
	f := requirements{abi: o.ABI, sealed: o.Sealed, memory: memoryFileReason(c, o), net: network{stream: true, datagram: true, listen: true}}
	declared := false
	f.namespaces = true
	for _, l := range c.Layers {
		if l.Authority == policy.Builtin {
			continue
		}
		declared = true
		f.namespaces = f.namespaces && l.Namespaces
		f.deniesNames = f.deniesNames || len(l.Syscalls.Deny) > 0
		f.addFS(l)
		f.addNet(l)
	}
	f.namespaces = f.namespaces && declared
	if o.Net && !f.net.nothing() {
		f.net.decidedElsewhere, f.net.stream, f.net.datagram = true, true, true // a name is asked for by UDP or TCP, whatever is granted about it
	}
	return f
}

func (f *requirements) addFS(l *policy.Layer) { f.fs = f.fs || l.Stance[policy.FS] == policy.Deny }

const unsealed = "a memory file that could be executed; use MFD_NOEXEC_SEAL (Linux 6.3), the bpf backend, or sysctl vm.memfd_noexec=1"

// memoryFileReason is why no memory file may be one that can be executed: some authority says what may be, and nothing that the session itself writes
// is. A backend that sees all decides when it's executed or mapped.
func memoryFileReason(c *policy.Compiled, o Backend) string {
	if o.ABI >= FullMediation {
		return ""
	}
	restricted := false
	for _, l := range c.Layers {
		switch {
		case l.Authority == policy.Builtin:
		case l.Stance[policy.Commands] == policy.Deny:
			return "commands are restricted: no program may make " + unsealed
		case l.Stance[policy.FS] == policy.Deny:
			restricted = restricted || !executesAnything(l)
		}
	}
	if !restricted || executesOwn(c) {
		return ""
	}
	return "the session may execute nothing that it writes: no program may make " + unsealed +
		", or grant `execute` on a folder that it may write"
}

// executesOwn reports whether there is a folder in which the session may create files, write and execute them: then a memory file adds
// nothing.
func executesOwn(c *policy.Compiled) bool {
	const own = policy.Create | policy.Update | policy.Execute
	return slices.ContainsFunc(c.Rules, func(r *policy.Rule) bool {
		return r.FS != nil && r.FS.Dir && r.FS.Last == "" && r.FS.Caps&own == own && c.CheckFS(r.FS.Path+"/toolguard-memory", own).Allow
	})
}

// Sealed reports whether the machine's administrator has memfd_create without flags make files that can't be executed. No session can take that
// back: it's for who administers the pid namespace (pid_mfd_noexec_dointvec_minmax, Linux 6.3).
func Sealed() bool {
	text, err := os.ReadFile("/proc/sys/vm/memfd_noexec")
	return err == nil && len(text) > 0 && (text[0] == '1' || text[0] == '2')
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

func (f *requirements) addNet(l *policy.Layer) {
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

// denyUnix tells whether sockets that could reach a unix socket of a process outside must be refused, because Landlock
// can't decide: by path below ABI 9 (LANDLOCK_ACCESS_FS_RESOLVE_UNIX), by abstract name below ABI 6
// (LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET).
func (f requirements) denyUnix() bool {
	return f.fs && f.abi < 9 || f.net.restricted && f.abi < 6
}
