// Package egress decides what a session sends to the network by name: its DNS queries, and the connections whose name, path or method
// counts. The session's programs need no configuration; the kernel redirects their connections here.
//
// # Redirected traffic
//
// Package cgroupsock redirects every DNS query of the session, to any server, and every TCP connection to a port of
// policy.AskedPorts that no rule about addresses decides. Kernel.Original returns a connection's destination; a connection without one
// isn't the session's and is reset. The kernel decides everything else, from what Kernel.Permit was given.
//
// # DNS
//
// A name that no rule grants is answered NXDOMAIN at once (musl waits for its time-out on REFUSED) and is never asked
// upstream. For the others A and AAAA are asked upstream. Every other type has no data, since HTTPS and SVCB records name other ports,
// addresses and ECH keys. The answer is built again from the addresses that CheckAddress allows for the name that was asked for. A chain
// through a denied name is denied. Before the answer is sent, the session is permitted the ports on which the name alone decides, for
// as long as the answer may be used, and the addresses are remembered with the name.
//
// A name of the machine's hosts file (Server.Hosts) is answered from there alone. Programs read that file without asking, so its granted
// names count as resolved from the start. Beneath a wildcard a name can carry data to the zone's server: its length is bounded and every
// question is counted.
//
// # Connections
//
// A name counts when the policy allows it and it is bound to the address: the session has resolved it to that address, or egress does so
// now. Egress dials the very address that the session wanted. What a rule about addresses grants needs no name, but no rule may deny the
// name that is sent.
//
//   - TLS: the server name. A request and a WebSocket look the same, so no rule may deny either. Without a name, or with
//     ECH, the one name that is remembered for the address counts, if there is exactly one; with ECH the outer name must be that one too.
//   - HTTP/1: every request, by its own Host, path and method. A head is parsed strictly and written again from what was parsed, so the
//     server gets what was decided on. What two servers could parse in different ways is rejected, and header fields by which some
//     frameworks take another path or method count as well. An Upgrade is forwarded for WebSockets, as ws, and removed otherwise. For a
//     proxy (absolute form, CONNECT) both the proxy and the target must be allowed, and a tunnel is decided like a connection of its own.
//   - Everything else, HTTP/2 without TLS included, is raw: allowed where a rule grants the port as raw to a name that is remembered for
//     the address, and none denies it. Where raw is allowed, egress connects to the server first, so that servers that send first work.
//
// Where Policy.Intercepts, TLS ends here under a certificate of the session's own authority, the server's certificate is verified, and
// each request is decided on, HTTP/2 too.
//
// When another policy comes into force, open transfers are decided again (Server.watch). A denial is reported and ends the unread
// connection, tunnel, WebSocket or request. A denial is quick and has a reason: 403 with a JSON body, the TLS alert access_denied, or a
// reset. Each is reported as a Denial, including what net/http rejects of HTTP/2 by itself.
//
// # Threats
//
// Every byte is hostile, from the session and from the servers. DNS, TLS hellos and HTTP heads are bounded in size and time and are
// parsed by code that is fuzzed. Upstream answers count only from the asked server's address and port, with our ID and our random
// capitals. A quiet connection holds no buffers.
//
// Not closed: without interception, a server of several names can be sent another one inside TLS (in the Host of a request, in ECH behind
// a matching name, in a second hello). A raw grant of a port says nothing about names.
package egress
