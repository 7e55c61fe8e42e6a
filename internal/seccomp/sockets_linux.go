package seccomp

import (
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/policy"
)

// socket denies every family except those that a policy can grant, and of these the sockets that it doesn't grant. The arguments are family,
// type (with SOCK_NONBLOCK and SOCK_CLOEXEC) and protocol, all int.
func (f requirements) socket() denial {
	families := []uint64{unix.AF_NETLINK}
	if !f.denyUnix() {
		families = append(families, unix.AF_UNIX)
	}
	if !f.net.nothing() {
		families = append(families, unix.AF_INET, unix.AF_INET6)
	}
	local := noneOf(0, unix.AF_NETLINK)
	inet := noneOf(0, unix.AF_NETLINK, unix.AF_UNIX)
	when := []all{
		noneOf(0, families...),
		and(all{is(0, unix.AF_NETLINK)}, noneOf(2, f.netlink()...)),
		and(local, all{anyBit(1, typeBit8)}),                      // SOCK_PACKET: AF_INET with it is a packet socket
		and(local, all{anyBit(1, typeBit1), anyBit(1, typeBit2)}), // SOCK_RAW
	}
	if !f.net.nothing() {
		// SOCK_SEQPACKET with protocol 0 is SCTP.
		when = append(when, and(inet, all{anyBit(1, typeBit4)}), and(inet, noneOf(2, f.protocols()...)))
		when = append(when, f.types(inet)...)
	}
	return denial{name: "socket", errno: unix.EACCES, when: when, Cause: f.socketCause(), unlogged: f.denyUnix()}
}

// netlink returns the allowed protocols of netlink sockets.
func (f requirements) netlink() []uint64 {
	list := []uint64{unix.NETLINK_ROUTE}
	if f.diag {
		list = append(list, unix.NETLINK_SOCK_DIAG)
	}
	if f.audit {
		list = append(list, unix.NETLINK_AUDIT)
	}
	return list
}

// protocols returns the allowed protocols of internet sockets. Multipath TCP bypasses Landlock's TCP rules, so it needs a policy
// that doesn't restrict net; Go and others fall back to TCP.
func (f requirements) protocols() []uint64 {
	ps := []uint64{0}
	if f.net.stream {
		ps = append(ps, unix.IPPROTO_TCP)
	}
	if f.net.datagram {
		ps = append(ps, unix.IPPROTO_UDP)
	}
	if !f.net.restricted {
		ps = append(ps, unix.IPPROTO_ICMP, unix.IPPROTO_ICMPV6, protoMPTCP)
	}
	return ps
}

func (f requirements) types(inet all) []all {
	var when []all
	if !f.net.stream {
		when = append(when, and(inet, all{anyBit(1, typeBit1)}))
	}
	if !f.net.datagram {
		when = append(when, and(inet, all{anyBit(1, typeBit2)}))
	}
	return when
}

// socketpair denies all pairs except unix sockets. Where unix sockets by path are denied, a datagram pair is, too: either end can
// connect or send to any path (unix_dgram_connect, unix_dgram_sendmsg). Stream and seqpacket pairs stay connected to each other.
func (f requirements) socketpair() denial {
	when := []all{{not(0, unix.AF_UNIX)}}
	if f.denyUnix() {
		when = append(when, all{anyBit(1, typeBit2)})
	}
	return denial{name: "socketpair", errno: unix.EACCES, when: when, Cause: f.socketCause()}
}

// socketCause returns the general cause of a denied socket; explainSocket is more specific.
func (f requirements) socketCause() *Cause {
	text := "always on: no raw, packet or exotic sockets"
	switch {
	case f.net.nothing() && f.denyUnix():
		text = "net grants nothing and fs is restricted: no internet and no unix socket"
	case f.net.nothing():
		text = "net grants nothing: no internet socket"
	case f.denyUnix():
		text = "fs is restricted: no unix socket, whose path this kernel can't decide on"
	case f.net.restricted:
		text = "net doesn't grant this kind of socket"
	}
	return &Cause{ID: "seccomp.socket", Text: text, Resource: "net", Reason: policy.SyscallDenied}
}

// explainSocket returns the cause for the arguments of one call.
func (f requirements) explainSocket(args *[6]uint64) Cause {
	c := Cause{
		ID: "seccomp.socket", Text: "always on: no raw, packet or exotic sockets", Resource: "syscall",
		Reason: policy.SyscallDenied,
	}
	switch family := args[0]; {
	case family == unix.AF_UNIX && f.denyUnix():
		c.Text, c.Resource = "fs is restricted: no unix socket, whose path this kernel can't decide on", "fs"
	case family != unix.AF_INET && family != unix.AF_INET6:
	case f.net.nothing():
		c = Cause{ID: "net", Text: "net: nothing is granted", Resource: "net", Reason: policy.NoRule}
	case f.net.restricted:
		c = Cause{ID: "net", Text: "net: nothing is granted for this kind of socket", Resource: "net", Reason: policy.NoRule}
	}
	return c
}
