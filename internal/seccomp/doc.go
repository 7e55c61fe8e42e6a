// Package seccomp turns a compiled policy into system call filters. The command's process loads them last before it executes.
//
// # Denied calls
//
// A deny list applies to every session, whatever its policy: changing mounts, entering or creating namespaces, loading code into
// the kernel, bpf, perf and io_uring, keyrings, terminal injection (TIOCSTI), leases on files, socket families other than unix,
// IPv4, IPv6 and the routing part of netlink, raw and packet sockets, and foreign ABIs. To these come calls that the policy
// requires to deny (internet sockets when it declares net and grants nothing, unix sockets by path where Landlock can't distinguish
// paths, executable memory files where execution is granted by path), the profile "strict", and the policy's own names. [Explain]
// returns which of these denied a call.
//
// # Errors
//
// A denied call fails with an error and a kernel log record, so that programs continue and the denial is reported:
//   - EPERM for calls that need privilege elsewhere, too; programs expect it.
//   - ENOSYS where programs fall back as on an older kernel: clone3 (its flags are in memory, which a filter can't read; the C
//
// library then uses clone, whose flags are in a register), openat2 where Landlock decides, io_uring, and every call newer than this
// package's table, so that a later kernel adds no gap.
//   - EACCES for leases, as for a file of another user, and for sockets: socket(2) documents it for "permission to create a socket
//
// of the specified type is denied", so that a program reports a denial and not a machine without a network stack.
//   - A foreign architecture (int 0x80, 32-bit programs) and the x32 ABI kill the process: their numbers mean other calls, and no
//
// program uses them partially on purpose.
//
// # Threats
//
// One filter program has all denials with a record. A second, loaded last, has those without: each filter costs a compilation when
// it is loaded and a run for every call. A program first kills foreign ABIs (the second leaves them to the first), then searches
// for the number by a decision tree. Its leaves are returns, or jumps to the block of a call that depends on arguments. Once an
// argument is in the accumulator, comparing it like the number would be a vulnerability: the caller chooses it. So the blocks come
// after the whole search, nothing jumps back, each word is loaded right before it is compared, and every path through a block ends
// in a return. A test follows all paths through the programs and checks this. The kernel evaluates the tree once for every number
// when it is loaded (seccomp_cache_prepare_bitmap, Linux 5.11), so that a call that is allowed by its number costs nothing later.
//
// The assembler is this package's own. The table of numbers is generated from go-seccomp-bpf's: the program doesn't link that
// library, because creating its maps costs every start more than all filters do. The tests compare the table with the library's,
// run the assembled programs over every number and hostile arguments, and compare the result with a plain model and with the
// library's programs, one conditional call in a filter (several in one of its programs aren't safe).
//
// The kernel uses only the low 32 bits of int arguments (the command of ioctl, the flags of clone). A rule that denies a value
// compares these only; a rule that allows values compares all 64, which can only deny more.
//
// A filter reads registers, never memory: nothing here depends on a path or on an address.
package seccomp
