// Package serve answers the requests of a session's calls API in the process that began the session: HTTP/1.1 with JSON on unix sockets.
//
// # Connections
//
// A connection has one kind of peer, and each kind has connections of its own. So confined processes, which may be hostile, can't use up those of
// the user's other processes.
//
//   - Outside: the socket that package socket makes. The kernel names the peer. A process with no_new_privs counts as confined: every process of a
//     session has it, wherever it is by now, and can't clear it. That a process without it is confined can't be.
//   - Inside: the same socket for the session's processes alone, in a folder that they can reach. Every peer counts as confined.
//   - Descriptor: an inherited descriptor, for sessions without unix sockets. Every peer counts as confined.
//   - Forwarded: connections that this process opens to toolguardd. toolguardd names the peer of each request.
//
// # Bounds
//
// A request's head has at most 16 KiB and its body 8 MiB. A client has ten seconds to send a request, and to read its answer. A kind has at most 64
// connections, one request is answered on each at a time, and few long bodies are read at a time; so at most 192 requests wait, and the
// memory is bounded. When the client disconnects, the context of its request is canceled. After the session's end a client has a second to read the
// answer to a request that had arrived.
package serve
