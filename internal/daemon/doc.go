// Package daemon is toolguardd: it owns the sessions of users who may not load programs into the kernel, says who may do what
// with them, and tells what happens in them.
//
// # Who asks
//
// A request is as good as the process at the other end of its connection, which the kernel names, never the request. A user
// sees and changes his own sessions, root all. What belongs to the start of a session is for the process alone that asked for
// it. A guarded process may only begin a session within its own: what it asks for is put within what it's held to, and its
// session goes when the outer one does. What such a process sends is hostile; so is what any user sends.
//
// # Who holds
//
// Nothing that enforces is here: labels, policies and counts are in the kernel, pinned. A toolguardd that is killed is missed
// by nobody until its successor comes, which reads from its files what belongs to the sessions that it finds in the kernel.
package daemon
