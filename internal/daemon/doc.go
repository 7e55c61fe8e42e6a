// Package daemon is toolguardd. It owns the sessions of users who may not load programs into the kernel, decides which request
// a process may send, and reports what happens in the sessions.
//
// # Permission
//
// A request has the rights of the process at the other end of its connection, which the kernel names (package peer). A user
// sees and changes the user's own sessions; root, all. Requests that belong to the start of a session are for the process
// that created it. A confined process may only begin a nested session: its policy is restricted by that of the outer session,
// and it ends with the outer session. Requests are hostile, whichever user sends them.
//
// # Enforcement
//
// Nothing that enforces is in this process. Labels, policies and counts are in the kernel, pinned. Sessions stay enforced
// while no toolguardd runs. The next one reads from its files what belongs to the sessions that it finds in the kernel.
package daemon
