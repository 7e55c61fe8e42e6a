// Package forkexec forks and executes a command like syscall.ForkExec, and lets the child make further system calls in between.
//
// A session needs this for one of them above all. The thread that forks belongs to toolguard, shares its memory, and is in the
// session's Landlock domain, so that it can signal the session as a whole. A command in the same domain could trace and signal the
// thread, and control toolguard through it. So the child enters a domain of its own, nested in the thread's: Landlock denies
// tracing and signalling outside a domain (domain_scope_le, domain_is_scoped in security/landlock/task.c).
//
// # Between fork and exec
//
// The child shares all memory with its parent, whose thread is suspended until the child has executed (CLONE_VM and CLONE_VFORK):
// copying a Go program's page tables would cost more than all the rest. Package syscall does the same, and this package follows its
// rules for the same reasons:
//
//   - The runtime is notified before and after (syscall.runtime_BeforeFork and the related functions, which the runtime keeps for linkname,
//     go.dev/issue/67401). In between, all signals are blocked, and the stack can't grow; in the child, caught signals have their default
//     action again.
//   - After the fork, the child allocates nothing, takes no lock and calls only assembly: another thread may have locked it at the fork,
//     and doesn't exist in the child. Everything is prepared before, and the child's work is a list of system calls.
//   - The child never returns from the function that forks, because its parent returns from the same frame of the same stack.
package forkexec
