// Package process runs egress in a process of its own, alongside a session with rules about names. It receives instructions and sends
// reports (package message), and confines itself. It parses hostile input from programs and servers, so before the first input it gives
// up root, files, other programs, and all sockets except those of the internet.
package process
