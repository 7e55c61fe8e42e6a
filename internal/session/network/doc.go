// Package network enforces a session's network rules: the BPF programs on its cgroup decide about addresses and ports, and redirect
// connections that depend on names or content to egress, a separate process.
//
// A Network belongs to a session that this process runs. A Managed belongs to a session that another process started, and that toolguardd
// enforces, reloads and takes over.
//
// # Guarantees
//
//   - The programs are attached before the cgroup has a process, and stay until it is empty: processes that outlive the session stay confined.
//   - Without egress, everything that it would decide is denied.
//   - A reload ends what only the former policy granted: egress ends its connections, and the other sockets are closed in the kernel. If a
//     reload fails, the former policy stays in force.
//   - At the end, sockets of the session in other processes are closed, unless its own processes may linger.
//
// # Threats
//
// A process of the session may pass its sockets to another process, and may be in a network namespace other than toolguardd's: sockets are
// opened and closed in the namespace where the session began. The bundle of the session's certificate authority is in its TMPDIR, but its
// user can't write it; a session that replaces the file deceives only itself.
package network
