// Package control starts egress for a session in a process of its own, sends its instructions, and restarts it when it dies.
//
// # Guarantees
//
//   - The ports of egress are opened here and stay open: connections wait for a restarted egress, and meanwhile the BPF programs
//     deny everything that they redirect to it.
//   - After Reload the new policy is in force: an egress that doesn't confirm it in time is killed, and the next one starts with it.
//   - An egress that hangs is killed: it must send heartbeats.
//   - Egress ends with the process that started it: the kernel kills it with its parent thread.
//
// # Threats
//
// Egress parses hostile input from programs and servers. It has no privileges and no files, and its messages aren't trusted, except the
// first one of the first process, which it sends before it reads anything from the session. Where toolguard is root, the program of
// egress runs as root: it is opened once, and must be a file of root or of toolguard's owner that no other user can write.
package control
