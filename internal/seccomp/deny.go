package seccomp

import "golang.org/x/sys/unix"

// group is a group of system calls that are denied for the same reason.
type group struct {
	id    string
	text  string
	errno unix.Errno
	names []string
}

// always is denied in every session, whatever its policy. Names that an architecture doesn't have are skipped.
var always = []group{
	// Landlock denies these, too (hook_sb_mount, hook_move_mount, …, security/landlock/fs.c), except the calls that only
	// prepare a mount or copy a tree: fsopen, fsconfig, fsmount, open_tree.
	{"seccomp.mount", "always on: no mount changes", unix.EPERM, []string{
		"mount", "umount", "umount2", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "open_tree",
		"open_tree_attr", "mount_setattr", "pivot_root",
	}},
	{"seccomp.chroot", "always on: no chroot", unix.EPERM, []string{"chroot"}},
	{"seccomp.clone3", "always on: clone3, whose flags a filter can't see", unix.ENOSYS, []string{"clone3"}},
	{"seccomp.bpf", "always on: no kernel programs", unix.EPERM, []string{"bpf"}},
	{"seccomp.perf", "always on: no performance events", unix.EPERM, []string{"perf_event_open", "lookup_dcookie"}},
	{"seccomp.keyring", "always on: no kernel keyrings", unix.EPERM, []string{"add_key", "request_key", "keyctl"}},
	{"seccomp.module", "always on: no kernel modules", unix.EPERM, []string{
		"init_module", "finit_module", "delete_module", "create_module", "get_kernel_syms", "query_module",
	}},
	{"seccomp.kexec", "always on: no other kernel", unix.EPERM, []string{"kexec_load", "kexec_file_load", "reboot"}},
	{"seccomp.userfaultfd", "always on: no userfaultfd", unix.EPERM, []string{"userfaultfd"}},
	// As on a kernel without CONFIG_IO_URING; libuv and others then use threads.
	{"seccomp.io_uring", "always on: no io_uring", unix.ENOSYS, rings},
	// A handle opens a file with no path walked. Making a handle is harmless, and systemd's tools do it.
	{"seccomp.handle", "always on: no opening by handle", unix.EPERM, []string{"open_by_handle_at"}},
	// Events disclose names and processes of the whole file system.
	{"seccomp.fanotify", "always on: no fanotify", unix.EPERM, []string{"fanotify_init"}},
	// With personality's READ_IMPLIES_EXEC it maps a file to be executed, and no LSM is asked (CVE-2024-47745; obsolete since Linux 3.16).
	{"seccomp.remap", "always on: no remapping of mapped files", unix.ENOSYS, []string{"remap_file_pages"}},
	// Without capabilities these fail anyway; a new user namespace must not bring their code into reach.
	{"seccomp.admin", "always on: no system administration", unix.EPERM, []string{
		"acct", "swapon", "swapoff", "settimeofday", "clock_settime", "stime", "sethostname", "setdomainname",
		"quotactl", "quotactl_fd", "nfsservctl", "vhangup", "syslog", "iopl", "ioperm", "uselib", "_sysctl",
	}},
}

// rings are the calls of io_uring. A filter doesn't see its operations, so a policy can allow it only where the LSM programs decide
// about everything that filters would.
var rings = []string{"io_uring_setup", "io_uring_enter", "io_uring_register"}

// RingsDenied explains why io_uring stays denied under other backends.
const RingsDenied = "io_uring stays denied although the policy allows it: system call filters don't see its operations"

// hiddenAttributes is denied where the backend doesn't see changes of a file's attributes.
var hiddenAttributes = []group{
	// An access control list gives a setgid file that its group may not execute, and whose content therefore may be written,
	// the right to be executed, and leaves it setgid (posix_acl_update_mode). Its name is in memory. The errno is that of a file system
	// without attributes, upon which programs that copy do without.
	{"seccomp.xattr", "always on: no extended attributes, which can make a setgid program", unix.EOPNOTSUPP, []string{
		"setxattr", "lsetxattr", "fsetxattr", "setxattrat",
	}},
}

// strict is denied in addition with `syscalls = "strict"`.
var strict = []group{
	{"seccomp.strict", `syscalls = "strict"`, unix.EPERM, []string{
		"process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp",
		"personality", "modify_ldt", "move_pages", "migrate_pages", "mbind", "set_mempolicy",
		"set_mempolicy_home_node", "vmsplice", "memfd_secret", "name_to_handle_at",
		"lsm_set_self_attr", "ustat", "sysfs", "fanotify_mark",
		"shmget", "shmat", "shmdt", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd",
		"msgrcv", "msgctl", "mq_open", "mq_unlink", "mq_timedsend", "mq_timedreceive", "mq_notify", "mq_getsetattr",
	}},
}

// notAllowable can't be named in a policy's syscalls.allow; why is the reason, or the alternative.
var notAllowable = [...]struct{ name, why string }{
	{"clone", "use namespaces = true for new namespaces"},
	{"clone3", "a filter can't read its flags; programs fall back to clone"},
	{"unshare", "use namespaces = true for new namespaces"},
	{"setns", "use namespaces = true for namespaces"},
	{"ioctl", "only TIOCSTI and TIOCLINUX are denied, always"},
	{"fcntl", "only leases are denied, always"},
	{"socket", "which uses are denied follows from the net and fs rules"},
	{"socketpair", "which uses are denied follows from the fs rules"},
	{"listen", "grant it with a net rule with listen = true"},
	{"sendto", "which uses are denied follows from the net rules"},
	{"sendmsg", "which uses are denied follows from the net rules"},
	{"sendmmsg", "which uses are denied follows from the net rules"},
	{"setsockopt", "which uses are denied follows from the net rules"},
	{"memfd_create", "it is denied only where nothing that is written may be executed; use MFD_NOEXEC_SEAL, or grant execute on a folder that may be written"},
	{"prlimit64", "only limits of other processes are denied, always"},
	{"setpriority", noPriorities},
	{"sched_setscheduler", noPriorities},
	{"sched_setparam", noPriorities},
	{"sched_setattr", noPriorities},
	{"ioprio_set", noPriorities},
	{"open", "which uses are denied follows from the fs rules"},
	{"openat", "which uses are denied follows from the fs rules"},
	{"openat2", "which uses are denied follows from the fs rules"},
	{"remap_file_pages", "use mmap, which LSM programs decide about; before Linux 6.12, no LSM hook sees this call"},
	{"truncate", "which uses are denied follows from the fs rules"},
	{"mount", noMounts},
	{"umount", noMounts},
	{"umount2", noMounts},
	{"move_mount", noMounts},
	{"fsopen", noMounts},
	{"fsconfig", noMounts},
	{"fsmount", noMounts},
	{"fspick", noMounts},
	{"open_tree", noMounts},
	{"open_tree_attr", noMounts},
	{"mount_setattr", noMounts},
	{"pivot_root", noMounts},
}

// whyNotAllowable returns why a policy can't allow a call by name, or "" if it can.
func whyNotAllowable(name string) string {
	for i := range notAllowable {
		if notAllowable[i].name == name {
			return notAllowable[i].why
		}
	}
	return ""
}

const (
	noMounts     = "no session may change mounts"
	noPriorities = "only priorities of other processes are denied, always"
)

// needed can't be named in a policy's syscalls.deny: without them, no command starts or ends.
var needed = []string{"execve", "exit", "exit_group", "rt_sigreturn"}
