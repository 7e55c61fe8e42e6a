// Package seccomp turns a compiled policy into system call filters, which the command's process loads last of all before it
// executes.
//
// # What is refused
//
// A deny list, in force for every session whatever its policy declares: changing mounts, entering or making namespaces,
// loading code into the kernel, the kernel's own programs and rings (bpf, perf, io_uring), keyrings, typing into the
// terminal (TIOCSTI), leases on files, socket families other than unix, IPv4, IPv6 and the routing part of netlink, raw and
// packet sockets, and foreign ABIs. To it come what the policy needs (no internet socket when it declares net and grants nothing, no
// unix socket by path where Landlock can't tell paths apart, no memory file that could be executed where
// execution is granted by path), the profile "strict", and the policy's own names. [Explain] says which of these a
// refused call belongs to.
//
// # How it is refused
//
// With an error and a kernel log record, so that programs go on and the denial is seen:
//   - EPERM for what needs privilege elsewhere too; programs expect it.
//   - ENOSYS where programs fall back when the kernel is older: clone3 (its flags are in memory, out of a
//     filter's sight; the C library then uses clone, whose flags are seen), openat2 where Landlock decides, io_uring, and
//     every call newer than this package knows, so that tomorrow's kernel can't bring a hole.
//   - EACCES for leases, as for a file of another user, and for sockets: socket(2) documents it for "permission to create
//     a socket of the specified type is denied", so that a program reports a refusal and not a machine without a network
//     stack.
//   - A foreign architecture (int 0x80, 32-bit programs) and the x32 ABI kill the process: their numbers mean other
//     calls, and nothing that was started on purpose uses them half way.
//
// # Threats
//
// All that is refused with a record is one program, and what is refused without one is a second, loaded last: each filter
// costs a compilation when it's loaded and a run for every call. A program first kills foreign ABIs (the second leaves
// them to the first), then searches for the number as in a decision tree, and its leaves are returns or jumps to the
// block of a call that depends on arguments. Once an argument is in the accumulator, comparing it as if it were
// the number would be a hole: the caller chooses it. So the blocks come after the whole search, nothing jumps back, each
// word is loaded right before it's compared, and every way through a block ends in a return. A test follows all ways through
// the programs and holds this. The kernel evaluates the tree once for every number when it's loaded
// (seccomp_cache_prepare_bitmap, Linux 5.11), so that a call that is allowed by its number costs nothing later.
//
// The assembler is this package's own, and the numbers of the calls are a table that is generated from go-seccomp-bpf's:
// that library isn't in the program, since making its maps costs every start more than all filters do. The tests hold the
// table to be the library's, run the assembled programs over every number and hostile arguments, and compare with a
// plain model and with what the library assembles, one conditional call in a filter (in its programs several aren't safe).
//
// The kernel uses only the low 32 bits of int arguments (the command of ioctl, the flags of clone). A rule that denies a value
// looks at these alone; a rule that allows values compares all 64, which can only deny more.
//
// A filter sees registers, never memory: nothing here depends on a path or on an address.
package seccomp
