// Package launch starts the command of a session, and supervises it to its end: the thread that it's started from, capabilities,
// environment, descriptors, fork, signals, orphans, and the private TMPDIR.
//
// # Guarantees
//
//   - The thread that the command inherits from is restricted before the fork, and ends with the session. It's never the process's first
//     thread, which can't end, and whose domain decides about the process as a whole.
//   - The command is in a Landlock domain nested in the thread's, so that it can neither trace nor signal toolguard through that
//     thread. It enters that domain, its cgroup and its limits between fork and exec, and loads the system call filters last.
//   - It starts with the descriptors, capabilities and variables that the policy grants, and no others.
//   - No process outlives the session, unless it may linger: toolguard is the subreaper of all its processes. It signals all at once from
//     the thread's domain if Landlock scopes signals (ABI 6), otherwise one by one as /proc lists them.
//
// # Wrappers
//
// bubblewrap and firejail must start unrestricted, so within them the stage, a second process of toolguard, restricts itself and executes the command
// (RunStage). toolguard waits until it has. The wrapper's processes have the signals blocked that would end them before the command; toolguard signals
// the command by its pidfd, and looks at its state now and then, as it's no child. No descriptor may lead around the wrapper's mounts.
//
// # Threats
//
// The command may fork as fast as it can, stop and trace its own processes so that they can't be waited for, choose its foreground process
// group, fill its TMPDIR with trees that are deeper than any path, and use up its user's processes. So waiting can be
// aborted, a session whose time is limited never stops with its command, the removal of the TMPDIR needs no path, and a part of the user's
// processes is reserved for toolguard.
package launch
