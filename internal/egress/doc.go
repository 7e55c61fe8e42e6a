// Package egress decides what a session says to the network by name: its DNS, and the connections whose name, path or method
// counts. The programs of the session know nothing of it; the kernel brings their connections here.
//
// # What comes here
//
// Package cgroupsock rewrites every DNS question of the session, whatever server it's for, and every TCP connection to a port of
// policy.AskedPorts that no rule about addresses decides. Kernel.Original says where a connection was going; what has no such
// place isn't of the session and is reset. Everything else is decided in the kernel, from what Kernel.Permit was given.
//
// # DNS
//
// A name that nothing is granted about is answered NXDOMAIN at once (musl waits for its time-out on REFUSED, so that is no quick
// denial) and never asked upstream. For the others, A and AAAA are asked upstream; every other type has no data, so that no record
// leads around the rules (HTTPS and SVCB name other ports, addresses and ECH keys). The answer is
// rebuilt: addresses that CheckAddress allows for a way in which the name may be reached, under the name that was asked
// for. A chain through a name that a rule denies is denied, too. Before the answer is released the session is
// permitted the ports on which the name alone decides, for as long as the answer may be used, and the addresses are remembered with the name.
//
// A name of the machine's hosts file (Server.Hosts) is answered from there alone. Programs read that file without asking, so its granted names
// count as resolved from the start.
//
// Beneath a wildcard a name can carry data to whoever serves the zone. What a granted zone learns can't be prevented, it can be
// sent a request as well; the length of such a name is bounded and every question is counted.
//
// # Connections
//
// A name is believed when the policy allows it and it's tied to the address: the session has resolved it to
// that, or egress does so now. Egress dials the very address that the session wanted, never another one. What a rule about addresses grants
// needs no name, but no rule may deny the one that is said.
//
//   - TLS: the server name. It can't be distinguished whether a request or a WebSocket follows, so neither may be
//     denied by a rule. Without a name, or with ECH, the one name that is remembered for the address counts, if there is exactly one; with ECH
//     the name outside must be that one too.
//   - HTTP/1: every request, by its own Host, path and method. A head is read strictly and written again from what was read, so what was
//     decided on is what the server gets: one CRLF form, one Host, one length. Whatever two servers could read in different ways is rejected, and header
//     fields by which some frameworks take another path or method count as if they were said.
//     An Upgrade is passed on for WebSockets, as ws, and taken out for everything else, so the server keeps
//     speaking what is decided here. For a proxy (absolute form, CONNECT) both the proxy and what it's asked for must be allowed, and what
//     is said in the tunnel is decided like a connection of its own.
//   - Everything else, HTTP/2 without TLS included, is raw: allowed where a rule grants the port as such to a name
//     remembered for the address, and none denies it.
//
// Where Policy.Intercepts, TLS is ended here under a certificate of the session's own authority, the server's is verified, and each request is
// decided on, HTTP/2 too.
//
// Where anything may be said the server is connected to first: who speaks first says what's decided on, so a server that greets is heard.
//
// What is passed on is decided on again when another policy comes into force (Server.watch). Where that denies it, the denial is reported and it ends: a
// connection that is passed on unread, a tunnel, a WebSocket, a request that is being answered.
//
// A denial is quick and says why: 403 with a JSON body, the TLS alert access_denied, or a reset. Each is reported as a Denial, also what
// net/http rejects of HTTP/2 by itself.
//
// # Threats
//
// Every byte is hostile, from the session and from the servers. DNS, TLS hellos and HTTP heads are bounded in size and time and are
// parsed by code that is fuzzed. Answers from upstream count only from the asked server's address and port, with
// our number and our random capitals. A quiet connection holds no buffers.
//
// What isn't closed: without interception, a server that serves several names can be given another one inside TLS (in the Host of a request,
// in ECH behind a matching name, in a second hello). A raw grant of a port says nothing of names at all.
package egress
