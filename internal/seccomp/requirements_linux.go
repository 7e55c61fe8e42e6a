package seccomp

import (
	"slices"
	"sync"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/proc"
)

// requirements are the parts of a policy that determine the filters.
type requirements struct {
	abi         int    // the kernel's Landlock ABI
	fs          bool   // some authority grants files by path
	memory      string // why executable memory files are denied; "": they aren't
	sealed      bool   // memory files aren't executable without MFD_EXEC
	namespaces  bool   // every authority allows new namespaces
	deniesNames bool   // some authority denies system calls by name
	diag        bool   // NETLINK_SOCK_DIAG is allowed, which no policy grants
	audit       bool   // NETLINK_AUDIT is allowed, which no policy grants
	net         network
}

// network has the network access that all authorities together grant.
type network struct {
	restricted       bool // some authority declares net
	stream           bool // something is granted over TCP, to connect to or to listen on
	datagram         bool // something is granted over UDP
	listen           bool // something is granted to listen on
	decidedElsewhere bool // another mechanism decides about each address and port
}

// allowsRings reports whether other mechanisms decide about everything that io_uring can do. Only filters distinguish sockets and
// their uses where Landlock decides, or where only ports are decided about, and only filters know the calls that a policy denies by
// name.
func (f requirements) allowsRings() bool {
	return f.abi >= FullMediation && !f.deniesNames && (!f.net.restricted || f.net.nothing() || f.net.decidedElsewhere)
}

// DeniesRings reports whether io_uring is denied although every authority that declares system calls allows it (RingsDenied).
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

// DeniesUnixSockets reports whether a session can create no unix socket, whatever its policy grants.
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
		f.net.decidedElsewhere, f.net.stream, f.net.datagram = true, true, true // name resolution uses UDP or TCP, whatever is granted
	}
	return f
}

func (f *requirements) addFS(l *policy.Layer) { f.fs = f.fs || l.Defaults[policy.FS] == policy.Deny }

const unsealed = "a memory file that could be executed; use MFD_NOEXEC_SEAL (Linux 6.3), the bpf backend, or sysctl vm.memfd_noexec=1"

// memoryFileReason returns why executable memory files are denied, or "": some authority restricts execution, and grants it on no
// folder that the session may write. A backend that sees all decides when the file is executed or mapped.
func memoryFileReason(c *policy.Compiled, o Backend) string {
	if o.ABI >= FullMediation {
		return ""
	}
	restricted := false
	for _, l := range c.Layers {
		switch {
		case l.Authority == policy.Builtin:
		case l.Defaults[policy.Commands] == policy.Deny:
			return "commands are restricted: no program may create " + unsealed
		case l.Defaults[policy.FS] == policy.Deny:
			restricted = restricted || !executesAnything(l)
		}
	}
	if !restricted || executesOwn(c) {
		return ""
	}
	return "the session may execute nothing that it writes: no program may create " + unsealed +
		", or grant `execute` on a folder that it may write"
}

// executesOwn reports whether there is a folder in which the session may create, write and execute files: then a memory file adds
// nothing.
func executesOwn(c *policy.Compiled) bool {
	const own = policy.Create | policy.Update | policy.Execute
	return slices.ContainsFunc(c.Rules, func(r *policy.Rule) bool {
		return r.FS != nil && r.FS.Dir && r.FS.Last == "" && r.FS.Caps&own == own && c.CheckFS(r.FS.Path+"/toolguard-memory", own).Allow
	})
}

// Sealed reports whether memfd_create without flags creates files that aren't executable. The administrator of the pid namespace
// sets this, and no session can revert it (pid_mfd_noexec_dointvec_minmax, Linux 6.3). It's read once.
var Sealed = sync.OnceValue(func() bool {
	text := proc.ReadShort("/proc/sys/vm/memfd_noexec")
	return len(text) > 0 && (text[0] == '1' || text[0] == '2')
})

// executesAnything reports whether the layer grants execution of the whole file tree, and denies it nowhere.
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
	if l.Defaults[policy.Net] != policy.Deny {
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

// denyUnix reports whether sockets that could reach a unix socket outside the session must be denied, because Landlock can't
// decide: by path below ABI 9 (LANDLOCK_ACCESS_FS_RESOLVE_UNIX), by abstract name below ABI 6
// (LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET).
func (f requirements) denyUnix() bool {
	return f.fs && f.abi < 9 || f.net.restricted && f.abi < 6
}
