// Package launch starts the command of a session, and supervises it to its end: the thread that it's started from, capabilities,
// environment, descriptors, fork, signals, the processes that outlive it, and the private TMPDIR.
//
// # Guarantees
//
//   - The thread that the command inherits from is restricted before the fork, and ends with the session. It's never the process's first
//     thread, which can't end, and whose domain decides about the process as a whole.
//   - The command isn't in the thread's Landlock domain but in one within it, so that it can neither trace nor signal toolguard through that
//     thread. It enters that domain, its cgroup and its limits between fork and exec, and loads the system call filters last.
//   - It's started with the descriptors, capabilities and variables that it was granted, and no others.
//   - Nothing of the session but what may linger outlives it: toolguard is the subreaper of all its processes, and signals them all at once
//     from within the domain where Landlock scopes signals (ABI 6), else one by one as /proc lists them.
//
// # Threats
//
// The command may fork as fast as it can, stop and trace its own processes so that none is seen to end, choose its foreground process
// group, fill its TMPDIR with trees that are deeper than any path, and use up all processes that its user may have. So waiting can be
// aborted, a session whose time is limited never stops with its command, the removal of the TMPDIR needs no path, and a part of the user's
// processes is reserved for toolguard.
package launch
