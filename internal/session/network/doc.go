// Package network enforces a session's rules about the network: the kernel's programs on its cgroup decide about addresses and ports, and
// redirect what depends on a name or on what is sent to egress, a process of its own.
//
// A Network is that of a session which this process runs; a Managed is that of a session which another process started, and which
// toolguardd enforces, reloads and takes over.
//
// # Guarantees
//
//   - The programs are on the cgroup before anything is in it, and stay until it's empty: what outlives the session stays enforced.
//   - Without egress nothing passes that it would decide about.
//   - A reload ends what the policy before granted and the new one doesn't: egress ends its connections, and sockets that the kernel alone
//     has let connect are closed. Where it can't be done all stays under the policy before.
//   - At the end sockets of the session that other processes have by then are closed, unless its own processes may go on.
//
// # Threats
//
// A process of the session may hand its sockets to another one, and may be in a network namespace other than toolguardd's: sockets are
// opened and closed in the namespace where the session began. The bundle of the session's certificate authority is in its TMPDIR, and not
// its user's to write; a session that puts another file there deceives itself alone.
package network
