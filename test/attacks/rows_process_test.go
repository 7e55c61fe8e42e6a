//go:build linux

package attacks

// traced: as root the kernel's capability check comes before the LSMs': the process outside has capabilities that the confined one
// lost (cap_ptrace_access_check). It leaves no record. An ordinary user's denial is reported only by the bpf backend,
// and only where Landlock, which is used for ports (ABI 4), doesn't deny it before.
var traced = wanted{resource: "always", capability: "trace", reasons: []string{"syscall_denied"}, who: "nobody", below: 4}

// No process may read toolguard's own memory (PR_SET_DUMPABLE): the kernel denies that before it calls any LSM.
var toolguards = noEvent("it isn't dumpable")

var processRows = []attack{
	{prog: "ptrace_outside", args: "$PID", around: victim, tries: []try{
		{"seize", ok, "EPERM", traced},
		{"attach", ok, "EPERM", traced},
	}},
	{prog: "trace_circle", gap: "processes that trace each other in a circle", tries: []try{
		{"upward", ok, ok, noEvent("granted")},
		{"circle", ok, ok, noEvent("a stated gap")},
		{"traceme", ok, ok, noEvent("a stated gap")},
		{"born", ok, ok, noEvent("a stated gap")},
		{"at-once", ok, ok, noEvent("a stated gap")},
	}, bpf: map[string]got{
		"circle":  {"EPERM", bpfEvent("trace")},
		"traceme": {"EPERM", bpfEvent("trace")},
		"born":    {"EPERM", bpfEvent("trace")},
		"at-once": {"EPERM", bpfEvent("trace")},
	}},
	{prog: "ptrace_parent", tries: []try{
		{"seize-parent", ok, "EPERM", toolguards},
	}},
	{prog: "threads_trace", around: freely, tries: []try{
		{"finds-it", ok, ok, noEvent("granted")},
		{"has-threads", "ESRCH", ok, noEvent("granted")}, // no control: its parent has only one thread there
		{"seize", ok, "EPERM", toolguards},
		{"attach", ok, "EPERM", toolguards},
		{"readv", ok, "EPERM", toolguards},
		{"writev", ok, "EPERM", toolguards},
		{"mem", ok, "EACCES EPERM", toolguards},
		{"environ", ok, "EACCES EPERM", toolguards},
		{"fd", ok, "EACCES EPERM", toolguards},
		{"oom_score_adj", ok, "ok / nobody EACCES", noEvent("granted, and another user's")},
		{"getfd", ok, "EPERM", toolguards},
		{"kcmp", ok, "EPERM", toolguards},
		{"prlimit", ok, "EPERM", callEvent("prlimit64")},
	}},
	{prog: "threads_signal", below: 6, around: ownGroup, gap: "signals to processes", tries: []try{
		{"tgkill", ok, ok, noEvent("stated gap")},
		{"tkill", ok, ok, noEvent("stated gap")},
		{"kill", ok, ok, noEvent("stated gap")},
		{"sigqueue", ok, ok, noEvent("stated gap")},
		{"tgsigqueue", ok, ok, noEvent("stated gap")},
		{"pidfd", ok, ok, noEvent("stated gap")},
		{"owner-thread", ok, ok, noEvent("stated gap")},
		{"owner-process", ok, ok, noEvent("stated gap")},
		{"owner-group", ok, ok, noEvent("stated gap")},
	}},
	{prog: "threads_signal", from: 6, around: ownGroup, tries: []try{
		{"tgkill", ok, "EPERM", signalEvent("toolguard")},
		{"tkill", ok, "EPERM", signalEvent("toolguard")},
		{"kill", ok, "EPERM", signalEvent("toolguard")},
		{"sigqueue", ok, "EPERM", signalEvent("toolguard")},
		{"tgsigqueue", ok, "EPERM", signalEvent("toolguard")},
		{"pidfd", ok, "EPERM", signalEvent("toolguard")},
		{"owner-thread", ok, "EPERM", signalEvent("toolguard")},
		{"owner-process", ok, "EPERM", signalEvent("toolguard")},
		{"owner-group", ok, "EPERM", signalEvent("toolguard")},
	}},
	{prog: "vm_rw", args: "$PID $ADDRESS", around: victim, tries: []try{
		{"readv", ok, "EPERM", traced},
		{"writev", ok, "EPERM", traced},
	}},
	{prog: "proc_outside", args: "$PID $ADDRESS", around: victim, tries: []try{
		{"mem", ok, "EACCES EPERM", fsEvent("read", "/proc/$PID/mem", "outside_workspace")},
		{"mem-write", ok, "EACCES EPERM", fsEvent("", "/proc/$PID/mem", "outside_workspace")},
		{"environ", ok, "EACCES EPERM", fsEvent("read", "/proc/$PID/environ", "outside_workspace")},
		{"fd", ok, "EACCES EPERM", traced},
		{"root", ok, "EACCES EPERM", traced},
		{"maps", ok, "EACCES EPERM", fsEvent("read", "/proc/$PID/maps", "outside_workspace")},
	}},
	{prog: "proc_public", args: "$PID", around: victim, gap: "every user may", tries: []try{
		{"cmdline", ok, "EACCES / nobody ok", fsEvent("read", "/proc/$PID/cmdline", "outside_workspace").as("root")},
		{"status", ok, "EACCES / nobody ok", fsEvent("read", "/proc/$PID/status", "outside_workspace").as("root")},
		{"kernel", ok, "EACCES / nobody ok", fsEvent("read", "/proc/cmdline", "outside_workspace").as("root")},
	}, bpf: map[string]got{
		"cmdline": {"EACCES", fsEvent("read", "/proc/$PID/cmdline", "outside_workspace")},
		"status":  {"EACCES", fsEvent("read", "/proc/$PID/status", "outside_workspace")},
		"kernel":  {"EACCES", fsEvent("read", "/proc/cmdline", "outside_workspace")},
	}},
	{prog: "env_leak", tries: []try{
		{"getenv", ok, "ENOENT", wanted{resource: "env", target: "TOOLGUARD_TEST_TOKEN"}},
		{"own-environ", ok, "ENOENT EACCES", noEvent("nothing is there to find")},
		{"parent-environ", ok, "EACCES EPERM", fsEvent("read", "", "outside_workspace").as("root")},
	}},
	{prog: "pidfd_getfd", args: "$PID", around: victim, tries: []try{
		{"take", ok, "EPERM", traced},
	}},
	{prog: "kill_outside", below: 6, args: "$PID", around: victim, gap: "signals to processes", tries: []try{
		{"kill", ok, ok, noEvent("stated gap")},
		{"tgkill", ok, ok, noEvent("stated gap")},
		{"sigqueue", ok, ok, noEvent("stated gap")},
		{"pidfd", ok, ok, noEvent("stated gap")},
		{"parent", ok, ok, noEvent("stated gap")},
	}},
	{prog: "kill_outside", from: 6, args: "$PID", around: victim, tries: []try{
		{"kill", ok, "EPERM", signalEvent("victim")},
		{"tgkill", ok, "EPERM", signalEvent("victim")},
		{"sigqueue", ok, "EPERM", signalEvent("victim")},
		{"pidfd", ok, "EPERM", signalEvent("victim")},
		{"parent", ok, "EPERM", signalEvent("toolguard")},
	}},
	{prog: "meddle_outside", args: "$PID", around: victim, gap: "CPU affinity", tries: []try{
		{"prlimit", ok, "EPERM", callEvent("prlimit64")},
		{"setpriority", ok, "EPERM", callEvent("setpriority")},
		{"setpriority-group", ok, "EPERM", callEvent("setpriority")},
		{"ioprio_set", ok, "EPERM", callEvent("ioprio_set")},
		{"sched_setparam", ok, "EPERM", callEvent("sched_setparam")},
		{"sched_setattr", ok, "EPERM", callEvent("sched_setattr")},
		{"sched_setscheduler", ok, "EPERM", callEvent("sched_setscheduler")},
		{"sched_setaffinity", ok, "ok EPERM", noEvent("stated gap")},
		{"move_pages", ok, "EPERM", traced},
		{"get_robust_list", ok, "EPERM", traced},
		{"kcmp", ok, "EPERM", traced},
	}, bpf: map[string]got{
		"sched_setaffinity": {"EPERM", bpfEvent("priority").on("victim").as("nobody")},
	}},
	{prog: "sysv_ipc", gap: "System V", bpfGap: "System V", tries: []try{
		{"shm", ok, "ok EPERM", noEvent("stated gap")},
		{"msg", ok, "ok EPERM", noEvent("stated gap")},
		{"sem", ok, "ok EPERM", noEvent("stated gap")},
		{"mqueue", ok, "ok EPERM EACCES", noEvent("stated gap")},
	}},
	{prog: "tiocsti", around: terminal, tries: []try{
		// Since 6.2 dev.tty.legacy_tiocsti may be off: then an ordinary user gets EIO, and there is no control.
		{"tiocsti", "ok / nobody ok EIO", "EPERM EACCES", callEvent("ioctl")},
		{"tiocsti-high-bits", "ok / nobody ok EIO", "EPERM EACCES", callEvent("ioctl")},
		{"tioclinux", "ENOTTY EINVAL", "EPERM EACCES", callEvent("ioctl")}, // no control: only a console has it
	}},
	{prog: "inherited_fd", around: descriptors, tries: []try{
		{"folder", ok, "EBADF", noEvent("it was closed")},
		{"file", ok, "EBADF", noEvent("it was closed")},
		{"fchdir", ok, "EBADF", noEvent("it was closed")},
	}},
	{prog: "scm_rights", around: accomplice, gap: "descriptors", tries: []try{
		{"receive", ok, ok, noEvent("stated gap")},
		{"receive-network", ok, ok, noEvent("stated gap")},
	}, bpf: map[string]got{
		"receive":         {"ENOENT", fsEvent("read", "$KEY", "outside_workspace")}, // the message comes without it
		"receive-network": {"ENOENT", bpfEvent("receive")},
	}},
	{prog: "socketpair", tries: []try{
		{"talk", ok, ok, noEvent("granted")},
		{"pass", ok, ok, noEvent("granted")},
	}},
	{prog: "comm_game", args: "$KEY", tries: []try{
		{"dpkg", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"toolguard", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"kworker", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"undumpable", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}},
	{prog: "fork_race", args: "$KEY", tries: []try{
		{"fork", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"thread", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
		{"vfork-exec", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}},
	{prog: "nested", args: "$TOOLGUARD $WS/loose.toml $KEY", around: looseToolguard, tries: []try{
		{"nested", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}},
	{prog: "cgroup_move", args: "/sys/fs/cgroup $WS $KEY", around: mover, needs: cgroups, tries: []try{
		{"by-itself", "ok / nobody EACCES", "EACCES", fsEvent("update", "/sys/fs/cgroup/cgroup.procs", "outside_workspace protected").as("root")},
		{"by-others", ok, "EACCES", fsEvent("read", "$KEY", "outside_workspace")},
	}},
	{prog: "background", args: "$WS/pid", after: orphan, tries: []try{
		{"started", ok, ok, noEvent("ended with the session")},
	}},
}

var privilegeRows = []attack{
	{prog: "setuid", args: "$SETUID", needs: setuidHere, notRoot: true, tries: []try{
		{"became-root", ok, "EPERM", noEvent("no_new_privs: nothing is refused")},
	}},
	{prog: "capabilities", args: "$WS", tries: []try{
		{"effective", "ok / nobody EPERM", "EPERM", noEvent("taken before the start")},
		{"permitted", "ok / nobody EPERM", "EPERM", noEvent("taken before the start")},
		{"bounding", ok, "EPERM / nobody EPERM ok", noEvent("taken before the start")}, // a user can't drop it, nor use it
		{"new-privileges", ok, "EPERM", noEvent("taken before the start")},
		{"chown", "ok / nobody EPERM", "EPERM", noEvent("the kernel's own answer")},
	}},
	{prog: "userns", tries: []try{
		{"unshare", ok, "EPERM", callEvent("unshare")},
		{"clone", ok, "EPERM", callEvent("clone")},
		{"clone3", ok, "ENOSYS", noEvent("every C library tries clone3 first; records of it would bury the others")},
	}},
	{prog: "namespaces", tries: []try{
		{"mount", "ok / nobody EPERM", "EPERM", callEvent("unshare")},
		{"net", "ok / nobody EPERM", "EPERM", callEvent("unshare")},
		{"pid", "ok / nobody EPERM", "EPERM", callEvent("unshare")},
		{"ipc", "ok / nobody EPERM", "EPERM", callEvent("unshare")},
		{"uts", "ok / nobody EPERM", "EPERM", callEvent("unshare")},
		{"cgroup", "ok / nobody EPERM", "EPERM", callEvent("unshare")},
		{"time", "ok / nobody EPERM", "EPERM", callEvent("unshare")},
		{"setns", "ok / nobody EPERM", "EPERM", callEvent("setns")},
	}},
	{prog: "mount_classic", args: "$WS", tries: []try{
		{"tmpfs", "ok / nobody EPERM", "EPERM", callEvent("mount")},
		{"bind", "ok / nobody EPERM", "EPERM", callEvent("mount")},
		{"umount", "EINVAL / nobody EPERM", "EPERM", callEvent("umount2")}, // nothing is mounted there
		{"pivot_root", "EINVAL EBUSY / nobody EPERM", "EPERM", callEvent("pivot_root")},
	}},
	{prog: "mount_api", args: "$WS", tries: []try{
		{"fsopen", "ok / nobody EPERM", "EPERM", callEvent("fsopen")},
		{"fspick", "ok / nobody EPERM", "EPERM", callEvent("fspick")},
		{"open_tree", "ok / nobody EPERM", "EPERM", callEvent("open_tree")},
		{"move_mount", "ok / nobody EPERM", "EPERM", callEvent("move_mount")},
		{"mount_setattr", "ok / nobody EPERM", "EPERM", callEvent("mount_setattr")},
	}},
	{prog: "chroot", args: "$WS", tries: []try{
		{"chroot", "ok / nobody EPERM", "EPERM", callEvent("chroot")},
	}},
}
