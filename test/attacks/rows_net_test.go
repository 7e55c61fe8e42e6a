//go:build linux

package attacks

var netRows = []attack{
	{prog: "unix_outside", below: 9, args: "$ABSTRACT $STREAM $DGRAM", around: victim, tries: []try{
		{"abstract", ok, "EACCES EPERM", callEvent("socket")},
		{"stream", ok, "EACCES EPERM", callEvent("socket")},
		{"datagram", ok, "EACCES EPERM", callEvent("socket")},
		{"sendto", ok, "EACCES EPERM", callEvent("socket")},
		{"sendmsg", ok, "EACCES EPERM", callEvent("socket")},
		{"pair-sendto", ok, "EACCES EPERM", callEvent("socketpair")},
		{"pair-connect", ok, "EACCES EPERM", callEvent("socketpair")},
	}},
	{prog: "unix_outside", from: 9, args: "$ABSTRACT $STREAM $DGRAM", around: victim, tries: []try{
		{"abstract", ok, "EACCES EPERM", wanted{resource: "net", capability: "connect", reasons: []string{"host_not_listed"}}},
		{"stream", ok, "EACCES EPERM", fsEvent("update", "$STREAM", "outside_workspace")},
		{"datagram", ok, "EACCES EPERM", fsEvent("update", "$DGRAM", "outside_workspace")},
		{"sendto", ok, "EACCES EPERM", fsEvent("update", "$DGRAM", "outside_workspace")},
		{"sendmsg", ok, "EACCES EPERM", fsEvent("update", "$DGRAM", "outside_workspace")},
		{"pair-sendto", ok, "EACCES EPERM", fsEvent("update", "$DGRAM", "outside_workspace")},
		{"pair-connect", ok, "EACCES EPERM", fsEvent("update", "$DGRAM", "outside_workspace")},
	}},
	{prog: "unix_inside", below: 9, args: "$ABSTRACT $WS", around: visitor, tries: []try{
		{"stream", ok, "EACCES EPERM", callEvent("socket")},
		{"datagram", ok, "EACCES EPERM", callEvent("socket")},
	}},
	{prog: "unix_inside", from: 9, args: "$ABSTRACT $WS", around: visitor, gap: "abstract name", tries: []try{
		{"stream", ok, ok, noEvent("stated gap")},
		{"datagram", ok, ok, noEvent("stated gap")},
	}, bpf: map[string]got{
		"stream":   {"EAGAIN", noEvent("it's the visitor who is refused")},
		"datagram": {"EAGAIN", noEvent("it's the visitor who is refused")},
	}},
	{prog: "inet", args: "$TCP $UDP", around: listeners, tries: []try{
		{"tcp4", ok, "EACCES EPERM", callEvent("socket")},
		{"tcp6", ok, "EACCES EPERM", callEvent("socket")},
		{"v4-in-v6", ok, "EACCES EPERM", callEvent("socket")},
		{"mptcp", ok, "EACCES EPERM", callEvent("socket")},
		{"fast-open", ok, "EACCES EPERM", callEvent("socket")},
		{"udp-sendto", ok, "EACCES EPERM", callEvent("socket")},
		{"udp-connect", ok, "EACCES EPERM", callEvent("socket")},
		{"udp-sendmmsg", ok, "EACCES EPERM", callEvent("socket")},
		{"unspec-bind", ok, "EACCES EPERM", callEvent("socket")},
		{"listen", ok, "EACCES EPERM", callEvent("socket")},
		{"listen-unbound", ok, "EACCES EPERM", callEvent("socket")},
	}},
	{prog: "sockets", tries: []try{
		{"raw4", "ok / nobody EPERM", "EACCES EPERM", callEvent("socket")},
		{"raw6", "ok / nobody EPERM", "EACCES EPERM", callEvent("socket")},
		{"ping", "ok EACCES", "EACCES EPERM", callEvent("socket")}, // net.ipv4.ping_group_range decides
		{"packet", "ok / nobody EPERM", "EACCES EPERM", callEvent("socket")},
		{"netlink-audit", "ok EPROTONOSUPPORT", "EACCES EPERM", callEvent("socket")},
		{"netlink-uevent", ok, "EACCES EPERM", callEvent("socket")},
		{"netlink-netfilter", "ok EPROTONOSUPPORT", "EACCES EPERM", callEvent("socket")},
		// No control where the kernel lacks the family; the denial comes first nevertheless.
		{"vsock", "ok EAFNOSUPPORT", "EACCES EPERM", callEvent("socket")},
		{"alg", "ok EAFNOSUPPORT", "EACCES EPERM", callEvent("socket")},
		{"key", "ok EAFNOSUPPORT EPERM", "EACCES EPERM", callEvent("socket")},
		{"xdp", "ok EAFNOSUPPORT EPERM", "EACCES EPERM", callEvent("socket")},
	}},
}
