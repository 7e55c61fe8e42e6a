// Package bubblewrap turns the mount plan of a session into the arguments of bubblewrap, reports how far bubblewrap together with Landlock
// enforces each rule of a policy, and probes whether bubblewrap works on this machine.
//
// # What it enforces
//
// Mounts, by package mounts. In addition a session has its own PID namespace with its own /proc, its own IPC namespace, a /dev with the standard
// devices, and without granted network access a network namespace without devices. Landlock and the system call filters apply within: the
// command that bubblewrap executes is a stage of toolguard that verifies the mounts, restricts itself, and then executes the session's
// command. Rules about hosts, arguments and unix sockets are reported as Landlock's are.
//
// # Threats
//
// bubblewrap runs before anything of the session does. Only a program of a fixed path that root alone can change is used, and none that is
// setuid: such a program would be root with arguments that a policy controls. Paths are passed as separate arguments, which bubblewrap doesn't
// interpret. It resolves them itself, and follows symlinks that a process outside the session may have put there since: mounts.Verify runs in
// the stage for that reason. It is given no capability to leave to the command.
package bubblewrap
