// Package session runs one command under one compiled policy. It defines the order of a run: select the backend, make all decisions, start the
// command, wait, end the session, report.
//
// # The start
//
// Landlock domains, seccomp filters, no_new_privs and the capability bounding set are attributes of a thread that its
// children inherit. So one locked OS thread of toolguard, the session thread, applies them to itself and then forks and executes the
// command: no other program starts in between, and neither the command nor a child of it ever runs without them. The Go runtime
// never clones a new thread from a locked one (it keeps a template thread for that), so no other thread of toolguard inherits
// them. The session thread is never unlocked; it ends with its goroutine.
//
// Between fork and execve the child only makes a list of system calls (package forkexec): the limits, the command's own Landlock
// domain, the filters. If a limit or the network needs a cgroup, the command starts in it (clone3).
//
// # The network
//
// As root, BPF programs on the session's cgroup (package cgroupsock) enforce rules about hosts. They are attached before the command
// starts, and redirect what depends on names or content to the egress process (package egress/process, in toolguardd's program file). It
// is a child of toolguard's and ends before toolguard looks for orphans. Its reports are untrusted: they are shown and decide nothing. Only its
// first message, before any client has connected, contains the session's certificate authority.
//
// # The run
//
// The command stays in toolguard's process group, so that the terminal's signals and job control reach it as without toolguard.
// Signals to toolguard alone are passed on. toolguard is the subreaper of the command's orphans, and the kernel kills the first
// process when toolguard dies (PR_SET_PDEATHSIG). A toolguard that replaced its caller by exec has the caller's children. It runs
// the session in a child, because it couldn't distinguish the caller's orphans from the session's.
//
// # Processes and threads
//
// A command can use up the processes and threads of its user (RLIMIT_NPROC), its cgroup (pids.max) or the machine, and the Go runtime
// ends a program that can't make a thread: the session would continue without wall time and cleanup. So toolguard makes all its
// threads before the command starts, and the command gets a lower RLIMIT_NPROC than toolguard.
//
// # Threats
//
// The command is the attacker and has toolguard's user. Its Landlock domain protects toolguard: the command may not trace or signal
// a process outside its domain, nor write the files that toolguard reads. A rule that can't be enforced prevents the start, or is
// named in the report.
package session
