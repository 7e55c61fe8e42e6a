package allowlist

import (
	"slices"

	"github.com/toolguard/toolguard/internal/seccomp"
)

// Program is one of toolguard's own programs, with the system calls that it may make.
type Program struct {
	name      string
	calls     []string
	arguments seccomp.OwnProgram
}

// runtimeCalls is what the Go runtime and package os may call in any program, on Linux 5.13 and later. Some names only one architecture has.
// Those that no Go program has been seen to make are for later versions of Go, and for what the kernel calls by itself: restart_syscall
// goes on with a call that a signal has interrupted.
var runtimeCalls = []string{
	"brk", "madvise", "membarrier", "mincore", "mmap", "mprotect", "munmap", "prctl",
	"clone", "exit", "exit_group", "futex", "futex_wait", "futex_wake", "futex_waitv", "getegid", "geteuid", "getgid",
	"getpid", "getppid", "gettid", "getuid", "rseq", "sched_getaffinity", "sched_yield", "set_robust_list",
	"restart_syscall", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "tgkill",
	"clock_getres", "clock_gettime", "clock_nanosleep", "getrandom", "gettimeofday", "nanosleep", "uname",
	"epoll_create1", "epoll_ctl", "epoll_pwait", "epoll_pwait2", "eventfd2", "pipe2", "poll", "ppoll",
	"getrlimit", "prlimit64", "setrlimit", // one's own
	"close", "dup", "dup3", "fcntl", "fstat", "lseek", "pread64", "preadv", "pwrite64", "pwritev", "read", "readv", "write", "writev",
}

// networkCalls is what package net may call, and what relays bytes.
var networkCalls = []string{
	"accept4", "bind", "connect", "getpeername", "getsockname", "getsockopt", "listen", "recvfrom", "recvmmsg", "recvmsg", "sendfile",
	"sendmmsg", "sendmsg", "sendto", "setsockopt", "shutdown", "socket", "splice",
}

// fileCalls is what package os may call of files, and what locks them and has them on the disk.
var fileCalls = []string{
	"copy_file_range", "faccessat", "faccessat2", "fadvise64", "fallocate", "fchmod", "fchmodat", "fchmodat2", "fchown", "fchownat",
	"fdatasync", "flock", "fstatat", "fstatfs", "fsync", "ftruncate", "getcwd", "getdents64", "ioctl", "mkdirat", "newfstatat", "openat", "openat2",
	"readlinkat", "renameat", "renameat2", "statfs", "statx", "truncate", "umask", "unlinkat", "utimensat",
}

// Egress is egress, once it has what it needs: it opens no file, starts no program, and reads and writes its maps by bpf(2).
var Egress = Program{name: "egress", calls: slices.Concat(runtimeCalls, networkCalls, []string{"bpf"})}

// Ship is toolguard-ship. What is too long for a datagram it hands journald as a memory file.
var Ship = Program{
	name: "toolguard-ship", calls: slices.Concat(runtimeCalls, networkCalls, fileCalls, []string{"memfd_create"}), arguments: seccomp.OwnProgram{Unix: true},
}

// Toolguardd is toolguardd. Its egress inherits the list, so what that needs until it loads its own is in it: to become nobody, Landlock, seccomp.
var Toolguardd = Program{
	name: "toolguardd", arguments: seccomp.OwnProgram{Unix: true, Diag: true, Audit: true, OtherProcesses: true},
	calls: slices.Concat(runtimeCalls, networkCalls, fileCalls, []string{
		"arch_prctl", "capget", "capset", "close_range", "execve", "getrusage", "kill", "pidfd_open", "pidfd_send_signal", "setns", "socketpair",
		"wait4", "waitid",
		"setgroups", "setresgid", "setresuid", "setsid", "landlock_add_rule", "landlock_create_ruleset", "landlock_restrict_self", "seccomp",
		"bpf", "epoll_wait", "mount", "fsconfig", "fsmount", "fsopen", // bpffs, and debugfs, which has how the kernel preempts itself
		"inotify_add_watch", "inotify_init1", "inotify_rm_watch",
	}),
}

// attacks end the program that makes them, unless it needs them: they load code or programs, look into other processes, or change what a
// name stands for, and nothing here would do that by mistake. The others fail.
var attacks = []string{
	"execve", "execveat", "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "kcmp",
	"bpf", "perf_event_open", "userfaultfd", "io_uring_setup", "io_uring_enter", "io_uring_register", "memfd_create", "memfd_secret",
	"init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot",
	"unshare", "setns", "chroot", "pivot_root", "mount", "umount2", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
	"mount_setattr", "open_by_handle_at", "fanotify_init", "add_key", "request_key", "keyctl", "swapon", "swapoff", "acct",
	"personality", "remap_file_pages", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "quotactl",
}
