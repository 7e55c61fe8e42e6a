// Package seccomp turns a compiled policy into system call filters and loads them on the thread that starts the
// command.
//
// # What is refused
//
// A deny list, in force for every session whatever its policy declares: changing mounts, entering or making namespaces,
// loading code into the kernel, the kernel's own programs and rings (bpf, perf, io_uring), keyrings, typing into the
// terminal (TIOCSTI), socket families other than unix, IPv4, IPv6 and the routing part of netlink, raw and packet
// sockets, and foreign ABIs. To it come what the policy needs (no internet socket when it declares net and grants nothing, no
// unix socket by path where Landlock can't tell paths apart, no memory file that could be executed where
// execution is granted by path), the profile "strict", and the policy's own names. [Explain] says which of these a
// refused call belongs to.
//
// # How it is refused
//
// With an error and a kernel log record, so that programs go on and the denial is seen:
//   - EPERM for what needs privilege elsewhere too; programs expect it.
//   - ENOSYS where programs fall back when the kernel is older: clone3 (its flags are in memory, out of a
//     filter's sight; the C library then uses clone, whose flags are seen), openat2 below Landlock ABI 3, io_uring, and
//     every call newer than this package knows, so that tomorrow's kernel can't bring a hole.
//   - EACCES for sockets: socket(2) documents it for "permission to create a socket of the specified type is denied", so
//     that a program reports a refusal and not a machine without a network stack.
//   - A foreign architecture (int 0x80, 32-bit programs) and the x32 ABI kill the process: their numbers mean other
//     calls, and nothing that was started on purpose uses them half way.
//
// # Threats
//
// Conditions on arguments are assembled by go-seccomp-bpf, which doesn't load the system call's number again after it
// has looked at arguments: a second comparison in the same program would compare an argument that the caller
// chooses. So such a filter holds exactly one system call, and several filters are stacked; the kernel takes the most
// restrictive answer. The library's default action also lets foreign architectures through, so the first filter kills
// them. That one is this package's own: a decision tree over the numbers, which the kernel evaluates once for every number
// when it's loaded (seccomp_cache_prepare_bitmap, Linux 5.11), so that a call that it allows costs nothing later. A
// test runs the assembled programs over every number and hostile arguments and compares with a plain model.
//
// The kernel uses only the low 32 bits of int arguments (the command of ioctl, the flags of clone). A rule that denies a value
// looks at these alone; a rule that allows values compares all 64, which can only deny more.
//
// A filter sees registers, never memory: nothing here depends on a path or on an address.
package seccomp
