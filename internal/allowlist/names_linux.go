package allowlist

import (
	"slices"

	"github.com/toolguard/toolguard/internal/seccomp"
)

// Program is a program of toolguard with the system calls that it may make.
type Program struct {
	name      string
	calls     []string
	arguments seccomp.OwnProgram
}

// runtimeCalls are the calls of the Go runtime and package os in any program, on Linux 5.13 and later. Some exist on one
// architecture only. Those that no Go program has been seen to make are for later versions of Go, and for the kernel:
// restart_syscall continues a call that a signal has interrupted.
var runtimeCalls = []string{
	"brk", "madvise", "membarrier", "mincore", "mmap", "mprotect", "munmap", "prctl",
	"clone", "exit", "exit_group", "futex", "futex_wait", "futex_wake", "futex_waitv", "getegid", "geteuid", "getgid",
	"getpid", "getppid", "gettid", "getuid", "rseq", "sched_getaffinity", "sched_yield", "set_robust_list",
	"restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "tgkill",
	"clock_getres", "clock_gettime", "clock_nanosleep", "getrandom", "gettimeofday", "nanosleep", "uname",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "eventfd2", "pipe2", "poll", "ppoll",
	"getrlimit", "prlimit64", "setrlimit", // its own
	"close", "dup", "dup3", "fcntl", "fstat", "lseek", "pread64", "preadv", "pwrite64", "pwritev", "read", "readv", "write", "writev",
}

// networkCalls are the calls of package net and of relays.
var networkCalls = []string{
	"accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom", "recvmmsg", "recvmsg", "sendfile",
	"sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socket", "splice",
}

// fileCalls are the calls of package os on files, with locks and syncs.
var fileCalls = []string{
	"copy_file_range", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat",
	"fdatasync", "flock", "fstatat", "fstatfs", "fsync", "ftruncate", "getcwd", "getdents64", "ioctl", "mkdirat", "newfstatat", "openat", "openat2",
	"readlinkat", "renameat", "renameat2", "statfs", "statx", "truncate", "umask", "unlinkat", "utimensat",
}

// Egress is the egress process after its preparation: it opens no file, starts no program, and accesses its maps by bpf(2).
var Egress = Program{name: "egress", calls: slices.Concat(runtimeCalls, networkCalls, []string{"bpf"})}

// Ship is toolguard-ship. It sends journald a memory file if an entry is too long for a datagram.
var Ship = Program{
	name: "toolguard-ship", calls: slices.Concat(runtimeCalls, networkCalls, fileCalls, []string{"memfd_create"}), arguments: seccomp.OwnProgram{Unix: true},
}

// Toolguardd is toolguardd. Its egress process inherits the list, so it includes what that needs until it loads its own: changing
// to the user nobody, Landlock, seccomp.
var Toolguardd = Program{
	name: "toolguardd", arguments: seccomp.OwnProgram{Unix: true, Diag: true, Audit: true, OtherProcesses: true},
	calls: slices.Concat(runtimeCalls, networkCalls, fileCalls, []string{
		"arch_prctl", "capget", "capset", "close_range", "execve", "getrusage", "kill", "pidfd_open", "pidfd_send_signal", "setns", "socketpair",
		"wait4", "waitid",
		"setgroups", "setresgid", "setresuid", "setsid", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "seccomp",
		"bpf", "epoll_wait", "mount", "fsconfig", "fsmount", "fsopen", // bpffs, and debugfs, which has the kernel's preemption mode
		"inotify_add_watch", "inotify_init1", "inotify_rm_watch",
	}),
}

// attacks kill a program that doesn't need them: they load code or programs, inspect other processes, or change what a name refers
// to, and no program here makes them by mistake. The other calls fail.
var attacks = []string{
	"execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create", "memfd_secret",
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
	"unshare", "setns", "chroot", "pivot_root", "mount", "umount2", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
	"mount_setattr", "open_by_handle_at", "fanotify_init", "add_key", "request_key", "keyctl", "swapon", "swapoff", "acct",
	"personality", "remap_file_pages", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "quotactl",
}
