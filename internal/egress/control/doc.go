// Package control starts egress for a session, in a process of its own, gives it its instructions, and starts it again when it dies.
//
// # Guarantees
//
//   - The ports of egress are opened here and stay open: connections wait for an egress that is started again, and while there is
//     none the programs in the kernel let nothing by that would have come to it.
//   - A policy that is in force after Reload decides: an egress that doesn't confirm it in time is ended, and the next one begins with it.
//   - An egress that hangs is ended, as it must send a message every so often.
//   - Egress ends with the process that started it: the kernel kills it with the thread that made it.
//
// # Threats
//
// Egress reads what hostile programs and servers send. It has no privileges and no files, and its messages aren't trusted, but for the
// first one of the first process, which it sends before it has read anything of the session's. Its program is executed as root where
// toolguard is root: it's opened once, and must be a file of root's or of toolguard's owner's that nobody else can write.
package control
