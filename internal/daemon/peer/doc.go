// Package peer identifies the client of a unix connection: its user, its process, and the session that the process is in.
//
// # Identity
//
// A request has the rights of the process at the other end of its connection. The kernel names that process (SO_PEERCRED, and
// SO_PEERPIDFD from Linux 6.5 on); nothing that the client sends does. Before Linux 6.5 the process is found by its PID, which
// another process of the same user may have reused by then; a process of another user is rejected. The PIDs that a client
// sends are those of its own PID namespace, so ThreadOf translates them.
//
// # Quotas
//
// A QuotaKey names the client whose quota a request uses. A user's confined processes share one of their own, so they cannot
// exhaust what the user's other processes need. Subordinate user IDs (subuid(5)) are rejected: each would have a quota of its own.
//
// # Errors
//
// The errors are plain ones; the caller selects the status of the answer by ErrNoThread and ErrPrivileges.
package peer
