// Package allowlist has toolguard's own programs that start once make no system calls but those that they need.
//
// # What is refused, and how
//
// All but what is listed. What a hijacked program would try, and nothing else, ends it: executing programs, loading code into the kernel,
// looking into other processes, making mounts and namespaces. All the rest fails with EPERM, so that a library that tries a call for its
// good goes on without. Either is in the kernel's audit records (type SECCOMP): a filter that would only log can't refuse.
//
// The lists are go-seccomp-bpf's to assemble. They don't look at arguments, since that library doesn't load the number of a call again when
// it has looked at some. What only arguments show is refused by a second filter, of package seccomp: kinds of sockets, namespaces made by
// clone(2), and calls of foreign ABIs, which end the program.
//
// A program that a list can't be loaded for doesn't start. It holds for all threads, and for what the program starts: toolguardd's has what
// egress needs until that loads its own.
package allowlist
