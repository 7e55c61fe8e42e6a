package seccomp

import (
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// Flags that the kernel's headers have and package unix hasn't, or not on every system.
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
	// unshareAllowed is what unshare(2) may take apart: nothing outside the process changes.
	unshareAllowed = unix.CLONE_FILES | unix.CLONE_FS | unix.CLONE_SYSVSEM | unix.CLONE_THREAD | unix.CLONE_SIGHAND |
		unix.CLONE_VM
)

// denial is one system call that is refused: always, or when one of the sets of conditions holds.
type denial struct {
	name     string
	when     []all // nil: always
	*Cause         // what explain fills in is missing
	errno    unix.Errno
	unlogged bool // of socket: the one of nscd is among those refused
}

// argumentRules are the refusals that depend on arguments or on the policy, for the facts of one policy.
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

// ioctl keeps the session from typing into its terminal (CVE-2017-5226 and its like).
func ioctl() denial {
	return denial{
		name: "ioctl", errno: unix.EPERM,
		when:  []all{low32(1, tiocSTI), low32(1, tiocLinux)},
		Cause: &Cause{ID: "seccomp.terminal", Text: "always on: no typing into the terminal (TIOCSTI, TIOCLINUX)"},
	}
}

// lease refuses leases and delegations: who holds one on a file that it may read keeps everybody from opening it, up to
// /proc/sys/fs/lease-break-time each time, and so toolguard from starting with that policy. The errno is the one for a file of
// another user (generic_setlease, fs/locks.c).
func lease() denial {
	return denial{
		name: "fcntl", errno: unix.EACCES,
		when:  []all{low32(1, unix.F_SETLEASE), low32(1, setDelegation)},
		Cause: &Cause{ID: "seccomp.lease", Text: "always on: no leases, which keep others from opening a file"},
	}
}

// setid refuses files that others execute with the session's user or group: root's would be a door for every user, long after
// the session. Creating a file with such a mode needs no refusal here: the first byte that is written takes it off again, without
// CAP_FSETID (file_remove_privs); the kernel's own programs refuse it all the same (bpf/lsm/directory.c). A setgid file that its group may not
// execute keeps it, and without access control lists never becomes one that it may.
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

// namespaces refuses new ones. clone's flags are its low 32 bits; CLONE_NEWTIME there is part of the exit signal.
func namespaces() []denial {
	cause := &Cause{ID: "seccomp.namespaces", Text: "always on: no new namespaces (without namespaces = true)"}
	return []denial{
		{name: "clone", errno: unix.EPERM, when: []all{{anyBit(0, cloneNew)}}, Cause: cause},
		{name: "unshare", errno: unix.EPERM, when: []all{{anyBit(0, ^uint64(unshareAllowed))}}, Cause: cause},
		{name: "setns", errno: unix.EPERM, Cause: cause},
	}
}

// prlimit keeps the limits of other processes of the same user out of reach: RLIMIT_CPU can end them.
func prlimit() denial {
	return denial{
		name: "prlimit64", errno: unix.EPERM,
		when:  []all{{not(0, 0), not(2, 0)}},
		Cause: &Cause{ID: "seccomp.prlimit", Text: "always on: no limits for other processes"},
	}
}

// priorities keeps those of other processes of the same user out of reach, toolguard's above all: one that runs only when nothing
// else would never end its session. Every process is its own process 0; a group or a user has toolguard in it.
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

// memfd refuses memory files that could be executed: they are on no path, so Landlock lets them pass
// (hook_file_open, MNT_INTERNAL). Kernels before 6.3 don't know MFD_NOEXEC_SEAL, so there memfd_create always fails. Those of
// memfd_secret are on a mount from which nothing is executed or mapped as code (secretmem_init).
func (f requirements) memfd() denial {
	r := denial{name: "memfd_create", errno: unix.EACCES, when: []all{{noBit(1, mfdNoexecSeal)}}}
	if f.sealed {
		r.when = []all{{anyBit(1, mfdExec)}}
	}
	r.Cause = &Cause{ID: "seccomp.memfd", Text: f.memory, Resource: "fs"}
	return r
}

// ports closes what port rules leave open: multicast groups and others' addresses; where nothing else decides, TCP Fast Open connects
// in sendmsg, past the connect hook; and a socket that was never bound may listen on a port that the kernel chooses, past the bind hook.
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

// listenCause suggests what a test's own server needs, where it can be told from others.
func (f requirements) listenCause() *Cause {
	c := &Cause{ID: "net", Text: "net: listening isn't granted: it takes a rule with `listen` and the port", Resource: "net", Reason: policy.HostNotListed}
	if f.net.decidedElsewhere {
		c.Text += "; one for localhost without a port is for servers of the session's own"
		c.Suggest = "[[access.net]]\nhost = \"localhost\"\nlisten = true\nallow = true\n"
	}
	return c
}

// SocketOptions are the levels and options of sockets that are refused where the network is restricted: by the kernel's own programs,
// too, for those who don't ask by setsockopt (bpf/lsm/unix.c has the same list).
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

// sockopts keeps a session from joining groups: the kernel announces that to the local network, by packets of its own with an address
// that the session chooses; and from sending with an address that isn't the machine's: whoever is reached, egress too, would answer there.
func sockopts() denial {
	var when []all
	for _, o := range SocketOptions {
		when = append(when, and(low32(1, o[0]), low32(2, o[1])))
	}
	return denial{
		name: "setsockopt", errno: unix.EACCES, when: when,
		Cause: &Cause{
			ID: "net", Resource: "net", Reason: policy.HostNotListed,
			Text: "net is restricted: no multicast groups, of which the kernel tells the local network, and no addresses but this machine's",
		},
	}
}

// truncation closes what Landlock can't see, or sees too late: cutting a file short without opening it for writing. Below ABI 3 it doesn't
// ask; above it does when the file system has opened the file, and an overlay has copied it up by then, without what was in it. An access
// mode of 3 opens for neither reading nor writing and truncates as well. open_how is in memory, so openat2 goes.
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

// strictPtraceRule leaves what starting a command under limits needs of the thread that carries the filters:
// PTRACE_TRACEME, PTRACE_CONT and PTRACE_DETACH. None of them reads or changes a process.
func strictPtraceRule() denial {
	return denial{
		name: "ptrace", errno: unix.EPERM,
		when:  []all{noneOf(0, unix.PTRACE_TRACEME, unix.PTRACE_CONT, unix.PTRACE_DETACH)},
		Cause: &Cause{ID: "seccomp.strict", Text: `syscalls = "strict"`},
	}
}
