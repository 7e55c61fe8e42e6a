// Package allowlist restricts toolguard's long-running programs to the system calls that they need.
//
// # Denied calls
//
// All calls that aren't listed are denied. Calls that only a hijacked program makes kill it: executing programs, loading code into
// the kernel, inspecting other processes, creating mounts and namespaces. The others fail with EPERM, so that a library that tries
// an optional call continues without it. The kernel's audit records have both (type SECCOMP): a filter that only logs couldn't
// deny.
//
// go-seccomp-bpf assembles the lists. They don't check arguments, because that library doesn't reload the number of a call after it
// has compared arguments. A second filter, of package seccomp, denies what only arguments show: kinds of sockets, namespaces by
// clone(2), and calls of foreign ABIs, which kill the program.
//
// If a list can't be loaded, the program doesn't start. The list applies to all threads, and to the program's children:
// toolguardd's includes what egress needs until it loads its own.
package allowlist
