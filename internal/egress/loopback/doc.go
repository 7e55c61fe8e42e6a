// Package loopback starts and ends the egress process of a session as an HTTP proxy on loopback (cmd/toolguard-egress). The session's sandbox lets it
// connect to the port of the proxy and to nothing else, so a program that ignores the variables HTTP_PROXY, HTTPS_PROXY and ALL_PROXY reaches nothing.
//
// # Guarantees
//
//   - The socket listens before the process runs, and belongs to this process, so the port is known before the profile is rendered and no other
//     process has it while the session runs.
//   - When the process ends, connections to the port are accepted by nobody: everything that it would decide is denied.
//   - The process ends when this one closes its input, however that happens.
//
// # Threats
//
// Egress parses hostile input, so its messages aren't trusted, except the first one, which it sends before it reads anything from the session. Other
// processes of the machine can use the port while the session runs, with the session's policy; they have the network anyway.
package loopback
