package cgroupsock

import (
	"net/netip"
	"time"
)

// Event is something that the kernel denied.
type Event struct {
	Time     time.Time
	Session  uint64
	Sequence uint64 // of the session; one that is missing was lost

	// Of the task; for a packet, of who connected its socket, where that's known: a datagram's. 0 and "" elsewhere.
	PID, TID, UID int
	Comm          string
	SeenAt        time.Duration // boot: when the task was looked at, of which a packet comes later

	Op       Op
	Why      Why
	At       netip.AddrPort // where to; for OpBind and OpAccept where it would have been waited for
	Protocol int            // IPPROTO_*; for OpOption its level
	Kind     int            // SOCK_*; 0: a packet; for OpOption its number

	// Who denied, where Why is WhyPolicy: places in the policy's Layers and Rules. -1: nobody, no rule.
	Layer, Rule int
	Generation  uint32 // of the image that says so; 0: it's nobody's word
}

// Op is what was tried.
type Op uint32

// What can be tried: bpf/sock/session.h has the same list.
const (
	OpSocket  Op = 1 + iota
	OpConnect    // also with a connection's first data
	OpSend       // a datagram
	OpBind
	OpPacket // that would have left: something came around the first check
	OpAccept // a connection or datagram from outside
	OpOption // of a socket
)

var opNames = [...]string{"", "socket", "connect", "send", "bind", "packet", "accept", "setsockopt"}

func (o Op) String() string { return name(opNames[:], uint32(o)) }

// Why is why it was denied.
type Why uint32

// The reasons, as in bpf/sock/session.h.
const (
	WhyPolicy Why = 1 + iota
	WhyEgress     // it's egress itself, or there is none to ask
	WhySocket     // no such socket is ever granted
	WhyDevice     // by a device that the machine hasn't chosen, or one that doesn't lead to egress
	WhyRoute      // the packet could be led elsewhere
	WhyMemory     // the kernel had no space to note down where it was going
	WhyTaken      // a process outside the session waits there already; Layer and Rule grant it where none does
)

var whyNames = [...]string{"", "policy", "egress", "socket", "device", "route", "memory", "taken"}

func (w Why) String() string { return name(whyNames[:], uint32(w)) }

func name(names []string, i uint32) string {
	if int(i) < len(names) {
		return names[i]
	}
	return "unknown"
}
