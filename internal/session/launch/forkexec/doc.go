// Package forkexec forks and executes a command the way syscall.ForkExec does, and lets the child make further system calls in
// between, which ForkExec doesn't.
//
// A session needs it for one of them above all. The thread that forks stays in toolguard, shares its memory, and is under the
// session's Landlock domain, so that it can signal the session as a whole. A command in that same domain could trace
// and signal the thread by its number, and through it be toolguard. So the child puts itself into a domain of its own
// within the thread's: Landlock lets nobody trace or signal outwards (domain_scope_le, domain_is_scoped in
// security/landlock/task.c).
//
// # What holds between fork and exec
//
// The child shares all memory with its parent, whose thread stands still until the child has executed (CLONE_VM and
// CLONE_VFORK): copying a Go program's page tables would cost more than all the rest. Package syscall does the same, and this
// package keeps to its rules, for the same reasons:
//
//   - The runtime is told before and after (syscall.runtime_BeforeFork and its like, which the runtime keeps for use from
//     outside, go.dev/issue/67401). In between all signals are blocked, and the stack can't grow; in the child
//     caught signals get back their default action.
//   - From the fork on the child allocates nothing, takes no lock and calls nothing but assembly: another thread may have held
//     a lock when it was made, and is not there to release it. All that it needs is prepared, and its work is a
//     list of system calls.
//   - The child never returns from the function that forks, since its parent returns from the same frame of the same stack.
package forkexec
