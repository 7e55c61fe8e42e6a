// Package session runs one command under one compiled policy. It has the order of a run: which backend is used, what must be decided
// before the command starts, how it starts, how it ends, what is reported.
//
// # The start
//
// Landlock domains, seccomp filters, no_new_privs and the capability bounding set are attributes of a thread that its
// children inherit. So one locked OS thread of toolguard takes them all on itself and then forks and executes the
// command: no second program starts in between, and there is no moment in which the command, or a child of it, runs
// without them. The Go runtime never clones a new thread from a locked one (it keeps a template thread for that), so no
// other thread of toolguard inherits them. The restricted thread is never unlocked; it ends with its goroutine.
//
// What runs between fork and execve is a list of system calls alone (package forkexec): the limits, the command's own domain, the
// filters. Where a limit or the network needs a cgroup, the command begins in it (clone3).
//
// # The network
//
// As root, BPF programs on the session's cgroup (package cgroupsock) enforce rules about hosts. They are attached before the command
// starts, and redirect what depends on names or content to the egress process (package egress/process, in toolguardd's program file). It
// is a child of toolguard's and ends before orphans are looked for. What it reports is untrusted: it shows in the report and decides
// nothing. Only its first message, before any client has connected, brings the session's certificate authority.
//
// # The run
//
// The command stays in toolguard's process group, so that the terminal's signals and job control reach it as if
// toolguard weren't there. Signals sent to toolguard alone are passed on. toolguard is the subreaper of the
// command's orphans, and the first process dies with toolguard (PR_SET_PDEATHSIG). A toolguard that replaced its caller by exec has the
// caller's children, and does all this in a child of its own, since nothing shows for certain whose an orphan is.
//
// # Processes and threads
//
// A command can use up the processes and threads that its user (RLIMIT_NPROC), its cgroup (pids.max) or the machine may have, and the Go
// runtime ends a program that needs a thread and gets none: the session would go on without wall time and cleanup.
// So toolguard makes all threads that it can need before the command starts, and the command gets a lower RLIMIT_NPROC than it has itself.
//
// # Threats
//
// The command is the attacker and shares toolguard's user. The Landlock domain protects toolguard itself:
// it may not trace or signal a process outside its own domain, nor write the files that toolguard reads. What can't
// be enforced either keeps the command from starting or is named in the report.
package session
