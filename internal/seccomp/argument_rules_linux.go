package seccomp

import (
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Flags in the kernel's headers that package unix doesn't have, or not on every system.
const (
	cloneNewTime  = 0x80
	mfdNoexecSeal = 0x8
	mfdExec       = 0x10
	msgFastopen   = 0x20000000
	setDelegation = 1040 // F_SETDELEG, Linux 6.19
	protoMPTCP    = 262
	ioprioProcess = 1 // IOPRIO_WHO_PROCESS

	tiocSTI   = 0x5412
	tiocLinux = 0x541c

	// The low four bits of a socket's type are the type proper (SOCK_TYPE_MASK), made of these.
	typeBit1 = 1 // SOCK_STREAM 1, SOCK_RAW 3, SOCK_SEQPACKET 5
	typeBit2 = 2 // SOCK_DGRAM 2, SOCK_RAW 3, SOCK_DCCP 6, SOCK_PACKET 10
	typeBit4 = 4 // SOCK_RDM 4, SOCK_SEQPACKET 5, SOCK_DCCP 6
	typeBit8 = 8 // SOCK_PACKET 10

	cloneNew = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET
	// unshareAllowed are the flags of unshare(2) that change nothing outside the process.
	unshareAllowed = unix.CLONE_FILES | unix.CLONE_FS | unix.CLONE_SYSVSEM | unix.CLONE_THREAD | unix.CLONE_SIGHAND |
		unix.CLONE_VM
)

// denial is one system call that is denied: always, or if one of the sets of conditions is true.
type denial struct {
	name     string
	when     []all // nil: always
	*Cause         // explain sets the empty fields
	errno    unix.Errno
	unlogged bool // for socket: the denials include the socket for nscd
}

// argumentRules returns the denials that depend on arguments or on the policy.
func (f requirements) argumentRules() []denial {
	rs := []denial{ioctl(), lease(), f.socket(), f.socketpair(), prlimit()}
	rs = append(rs, setid()...)
	rs = append(rs, priorities()...)
	if !f.namespaces {
		rs = append(rs, namespaces()...)
	}
	if f.memory != "" {
		rs = append(rs, f.memfd())
	}
	if f.net.restricted && !f.net.nothing() {
		rs = append(rs, f.ports()...)
	}
	if f.fs && f.abi < FullMediation {
		rs = append(rs, f.truncation()...)
	}
	return rs
}

// ioctl denies terminal injection (CVE-2017-5226 and similar).
func ioctl() denial {
	return denial{
		name: "ioctl", errno: unix.EPERM,
		when:  []all{low32(1, tiocSTI), low32(1, tiocLinux)},
		Cause: &Cause{ID: "seccomp.terminal", Text: "always on: no typing into the terminal (TIOCSTI, TIOCLINUX)"},
	}
}

// lease denies leases and delegations. A lease on a readable file blocks every process that opens it, up to
// /proc/sys/fs/lease-break-time each time, and so the start of toolguard with that policy. The errno is the one for a file of
// another user (generic_setlease, fs/locks.c).
func lease() denial {
	return denial{
		name: "fcntl", errno: unix.EACCES,
		when:  []all{low32(1, unix.F_SETLEASE), low32(1, setDelegation)},
		Cause: &Cause{ID: "seccomp.lease", Text: "always on: no leases, which block other processes from opening a file"},
	}
}

// setid denies setuid and setgid files, which other users execute with the session's user or group: root's would be a backdoor for every
// user after the session. Creating a file with such a mode needs no denial here: the first write removes the bits without
// CAP_FSETID (file_remove_privs); the LSM programs deny it anyway (bpf/tree.c). A setgid file that its group may not execute keeps
// the bit, and without access control lists never becomes executable for the group.
func setid() []denial {
	cause := &Cause{ID: "seccomp.setid", Text: "always on: no setuid and no setgid files"}
	bits := func(arg uint32) []all { return []all{{anyBit(arg, unix.S_ISUID|unix.S_ISGID)}} }
	return []denial{
		{name: "chmod", errno: unix.EPERM, when: bits(1), Cause: cause},
		{name: "fchmod", errno: unix.EPERM, when: bits(1), Cause: cause},
		{name: "fchmodat", errno: unix.EPERM, when: bits(2), Cause: cause},
		{name: "fchmodat2", errno: unix.EPERM, when: bits(2), Cause: cause},
	}
}

// namespaces denies new namespaces. clone's flags are its low 32 bits; CLONE_NEWTIME there is part of the exit signal.
func namespaces() []denial {
	cause := &Cause{ID: "seccomp.namespaces", Text: "always on: no new namespaces (without namespaces = true)"}
	return []denial{
		{name: "clone", errno: unix.EPERM, when: []all{{anyBit(0, cloneNew)}}, Cause: cause},
		{name: "unshare", errno: unix.EPERM, when: []all{{anyBit(0, ^uint64(unshareAllowed))}}, Cause: cause},
		{name: "setns", errno: unix.EPERM, Cause: cause},
	}
}

// prlimit denies setting limits of other processes of the same user: RLIMIT_CPU can end them.
func prlimit() denial {
	return denial{
		name: "prlimit64", errno: unix.EPERM,
		when:  []all{{not(0, 0), not(2, 0)}},
		Cause: &Cause{ID: "seccomp.prlimit", Text: "always on: no limits for other processes"},
	}
}

// priorities denies setting priorities of other processes of the same user, above all toolguard's: with the idle priority, it would
// never end its session. 0 is the calling process; a group or a user includes toolguard.
func priorities() []denial {
	cause := &Cause{ID: "seccomp.priority", Text: "always on: no priorities for other processes and threads"}
	other := []all{{not(0, 0)}}
	return []denial{
		{name: "setpriority", errno: unix.EPERM, when: []all{{not(0, unix.PRIO_PROCESS)}, {not(1, 0)}}, Cause: cause},
		{name: "ioprio_set", errno: unix.EPERM, when: []all{{not(0, ioprioProcess)}, {not(1, 0)}}, Cause: cause},
		{name: "sched_setscheduler", errno: unix.EPERM, when: other, Cause: cause},
		{name: "sched_setparam", errno: unix.EPERM, when: other, Cause: cause},
		{name: "sched_setattr", errno: unix.EPERM, when: other, Cause: cause},
	}
}

// memfd denies executable memory files: they have no path, so Landlock allows them (hook_file_open, MNT_INTERNAL). Kernels before
// 6.3 don't know MFD_NOEXEC_SEAL, so there memfd_create always fails. memfd_secret is on a mount without execution
// (secretmem_init).
func (f requirements) memfd() denial {
	r := denial{name: "memfd_create", errno: unix.EACCES, when: []all{{noBit(1, mfdNoexecSeal)}}}
	if f.sealed {
		r.when = []all{{anyBit(1, mfdExec)}}
	}
	r.Cause = &Cause{ID: "seccomp.memfd", Text: f.memory, Resource: "fs"}
	return r
}

// ports denies operations that port rules don't limit: multicast groups and foreign addresses; where nothing else decides, TCP Fast Open,
// which connects in sendmsg, past the connect hook; and listen on an unbound socket, for which the kernel chooses a port, past the
// bind hook.
func (f requirements) ports() (rs []denial) {
	rs = []denial{sockopts()}
	fast := &Cause{ID: "net", Text: "net is restricted: no TCP Fast Open", Resource: "net", Reason: policy.HostNotListed}
	if !f.net.decidedElsewhere {
		rs = append(
			rs,
			denial{name: "sendto", errno: unix.EACCES, when: []all{{anyBit(3, msgFastopen)}}, Cause: fast},
			denial{name: "sendmsg", errno: unix.EACCES, when: []all{{anyBit(2, msgFastopen)}}, Cause: fast},
			denial{name: "sendmmsg", errno: unix.EACCES, when: []all{{anyBit(3, msgFastopen)}}, Cause: fast},
		)
	}
	if !f.net.listen {
		rs = append(rs, denial{name: "listen", errno: unix.EACCES, Cause: f.listenCause()})
	}
	return rs
}

// listenCause suggests a rule for the session's own servers, where they are distinguishable.
func (f requirements) listenCause() *Cause {
	c := &Cause{ID: "net", Text: "net: listening isn't granted: it needs a rule with `listen` and the port", Resource: "net", Reason: policy.HostNotListed}
	if f.net.decidedElsewhere {
		c.Text += "; one for localhost without a port is for servers of the session's own"
		c.Suggest = "[[access.net]]\nhost = \"localhost\"\nlisten = true\nallow = true\n"
	}
	return c
}

// SocketOptions are the levels and options of sockets that are denied where the network is restricted. The LSM programs deny them,
// too, for operations without setsockopt (bpf/socket.c has the same list).
var SocketOptions = [][2]uint32{
	{unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP},
	{unix.IPPROTO_IP, unix.IP_ADD_SOURCE_MEMBERSHIP},
	{unix.IPPROTO_IP, unix.MCAST_JOIN_GROUP},
	{unix.IPPROTO_IP, unix.MCAST_JOIN_SOURCE_GROUP},
	{unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP},
	{unix.IPPROTO_IPV6, unix.IPV6_JOIN_ANYCAST},
	{unix.IPPROTO_IPV6, unix.MCAST_JOIN_GROUP},
	{unix.IPPROTO_IPV6, unix.MCAST_JOIN_SOURCE_GROUP},
	{unix.IPPROTO_IP, unix.IP_FREEBIND},
	{unix.IPPROTO_IP, unix.IP_TRANSPARENT},
	{unix.IPPROTO_IPV6, unix.IPV6_FREEBIND},
	{unix.IPPROTO_IPV6, unix.IPV6_TRANSPARENT},
}

// sockopts denies joining groups, which the kernel announces to the local network by packets with an address that the session
// chooses, and sending with an address that isn't the machine's: the receiver, egress included, would answer to it.
func sockopts() denial {
	var when []all
	for _, o := range SocketOptions {
		when = append(when, and(low32(1, o[0]), low32(2, o[1])))
	}
	return denial{
		name: "setsockopt", errno: unix.EACCES, when: when,
		Cause: &Cause{
			ID: "net", Resource: "net", Reason: policy.HostNotListed,
			Text: "net is restricted: no multicast groups, which the kernel announces to the local network, and only this machine's addresses",
		},
	}
}

// truncation denies truncations that Landlock doesn't see, or sees too late: truncating a file without opening it for writing. Below ABI 3,
// Landlock doesn't check it. Above, it checks when the file system has opened the file, and an overlay has copied it up by then,
// without its content. An access mode of 3 opens for neither reading nor writing, and truncates as well. open_how is in memory, so
// openat2 is denied.
func (f requirements) truncation() []denial {
	cause := &Cause{
		ID: "seccomp.truncate", Text: "fs is restricted: Landlock can't keep a file from being emptied by opening it, other than for writing",
		Resource: "fs",
	}
	flags := func(arg uint32) []all {
		return []all{
			{anyBit(arg, unix.O_TRUNC), noBit(arg, unix.O_ACCMODE)},
			{anyBit(arg, unix.O_TRUNC), anyBit(arg, unix.O_WRONLY), anyBit(arg, unix.O_RDWR)},
		}
	}
	rs := []denial{
		{name: "openat2", errno: unix.ENOSYS, Cause: cause},
		{name: "open", errno: unix.EACCES, when: flags(1), Cause: cause},
		{name: "openat", errno: unix.EACCES, when: flags(2), Cause: cause},
	}
	if f.abi < 3 {
		rs = append(rs, denial{name: "truncate", errno: unix.EACCES, Cause: &Cause{
			ID: "seccomp.truncate", Text: "fs is restricted: truncation can't be decided by path on this kernel", Resource: "fs",
		}})
	}
	return rs
}

// strictPtraceRule leaves PTRACE_TRACEME, PTRACE_CONT and PTRACE_DETACH, which the thread that has the filters needs to start a
// command under limits. None of them reads or changes a process.
func strictPtraceRule() denial {
	return denial{
		name: "ptrace", errno: unix.EPERM,
		when:  []all{noneOf(0, unix.PTRACE_TRACEME, unix.PTRACE_CONT, unix.PTRACE_DETACH)},
		Cause: &Cause{ID: "seccomp.strict", Text: `syscalls = "strict"`},
	}
}
