package cgroupsock

import (
	"net/netip"
	"time"
)

// Event is a denial by the kernel.
type Event struct {
	Time     time.Time
	Session  uint64
	Sequence uint64 // of the session; a missing number is a lost event

	// Of the task; for a datagram's packet, of the task that connected its socket, if known. 0 and "" otherwise.
	PID, TID, UID int
	Comm          string
	SeenAt        time.Duration // since boot: when the task was recorded, before its packet

	Op       Op
	Why      Why
	At       netip.AddrPort // the destination; for OpBind and OpAccept the local address
	Protocol int            // IPPROTO_*; for OpOption its level
	Kind     int            // SOCK_*; 0: a packet; for OpOption its number

	// For WhyPolicy: the indices of the layer and rule that denied, in the policy's Layers and Rules. -1: none.
	Layer, Rule int
	Generation  uint32 // of the image that decided; 0: none did
}

// Op is the denied operation.
type Op uint32

// The operations; bpf/sock/session.h has the same list.
const (
	OpSocket  Op = 1 + iota
	OpConnect    // also with a connection's first data
	OpSend       // a datagram
	OpBind
	OpPacket // an outgoing one, which bypassed the first check
	OpAccept // a connection or datagram from outside
	OpOption // of a socket
)

var opNames = [...]string{"", "socket", "connect", "send", "bind", "packet", "accept", "setsockopt"}

func (o Op) String() string { return name(opNames[:], uint32(o)) }

// Why is the reason of a denial.
type Why uint32

// The reasons, as in bpf/sock/session.h.
const (
	WhyPolicy Why = 1 + iota
	WhyEgress     // egress's own address, or egress doesn't run
	WhySocket     // no policy grants such a socket
	WhyDevice     // the socket is bound to a device that isn't the machine's choice, or doesn't lead to egress
	WhyRoute      // the packet could be routed elsewhere
	WhyMemory     // the kernel had no memory to record the original destination
	WhyTaken      // a process outside the session already listens there; Layer and Rule grant the port otherwise
)

var whyNames = [...]string{"", "policy", "egress", "socket", "device", "route", "memory", "taken"}

func (w Why) String() string { return name(whyNames[:], uint32(w)) }

func name(names []string, i uint32) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "unknown"
}
