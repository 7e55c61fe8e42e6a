// Package calls serves the tool calls of one session: it takes each through its life (internal/tool), runs the hooks, has people decide, and
// keeps what was decided. It's a part of the toolguard that began the session, as the user: toolguardd only forwards requests to it.
//
// # Threats
//
// A confined process is a client like any other, and hostile. It submits calls, asks for approvals and grants, and reads the decisions on
// these. It decides nothing: a peer counts as confined if it came through the descriptor that the session has, or if it has no_new_privs,
// which each process of a session has and none can lose. It can't exhaust what others need: its open calls and requests have limits of their own.
//
// An approval is bound to what was shown: before an approved call may run, the files that it would execute are compared with their
// digests. After that, only the session's policy protects them.
//
// Nothing that is decided here limits a process that doesn't ask: that does the session.
package calls
