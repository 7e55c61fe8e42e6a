package landlock

// Gaps of every backend, or parts of them.
const (
	TruncateByServers = "on network file systems whose server opens and truncates a file in one step (NFS 4, SMB, Ceph), opening a file with " +
		"O_TRUNC whose name the kernel hasn't cached truncates it before the kernel checks the policy"
	ProcPriorities = "a process that may write /proc can change the priority of the user's other processes, and which one the kernel " +
		"kills first when memory runs out"
)

// StatedGaps returns the accesses that this backend can't see or deny under any policy, on a kernel with that ABI. Gaps that deny too much are
// last.
func StatedGaps(abi int) []string {
	gaps := []string{
		"a file can be created as setuid or setgid: the first write removes these bits, unless the writer may keep them (CAP_FSETID)",
		"chmod, chown, utimes and file attributes on files that the session's user owns aren't mediated (setting setuid and setgid is denied)",
		"inotify on visible files isn't mediated: names and times of accesses are visible",
		"stat, access, readlink, reading extended attributes and opening a path with O_PATH aren't mediated: names, sizes, link targets and " +
			"attributes are visible",
		OthersInProc,
		"mapping a readable file as code isn't mediated: `ld.so FILE` and dlopen bypass a denial to execute",
		"file system specific calls (ioctl) aren't mediated: on btrfs, subvolumes and snapshots can be created and removed in a readable folder",
		"an interpreter that binfmt_misc opened when it was registered (flag F) is executed whatever the policy decides about it",
		"a grant is on the file or folder that existed at the start, under every name that it has (hard links, bind mounts), and remains on it " +
			"when a process outside the session moves it",
		"the kernel's own files are not special: a policy that lets root write all of them (`fs = \"allow\"`) lets it reboot the machine " +
			"(/proc/sysrq-trigger), make the kernel run programs outside the session (core_pattern and modprobe in /proc/sys/kernel, " +
			"binfmt_misc, uevent_helper in /sys), and access devices and disks (/dev); " + ProcPriorities,
		TruncateByServers,
		"files without a name (O_TMPFILE) require update, not create, and get a name only with create",
		"System V and POSIX message queues, semaphores and shared memory, and the CPU affinity of processes, are shared with other processes " +
			"of the same user (with syscalls = \"strict\", shared memory and semaphores are not)",
		"if unix sockets can be created, a session may listen on an abstract name, even if net is denied: processes outside that connect to a " +
			"service of that name reach the session",
		"processes that trace each other in a circle, each to stop the other when it exits, can't be killed: they remain, stopped, with the " +
			"session's memory and files that they have open; toolguard reports them and doesn't wait for them",
		"descriptors that a process outside sends over a unix socket on 0, 1, 2 or --pass-fd aren't mediated: they were opened outside",
		"the other end of a pipe on 0, 1, 2 or --pass-fd can be opened (/proc/self/fd): a shell that reads its commands from that pipe executes " +
			"what the command writes there (not if the command's input is redirected, as by < /dev/null)",
		"a program that restricts itself with a Landlock domain or a system call filter of its own can hide the denials that these cause as well",
		"if toolguard is killed (kill -9), only the session's first process ends with it: the others continue, restricted but without a time " +
			"limit; their TMPDIR remains, and their cgroup remains until the next start",
		"without --workspace or a policy's `workspace`, a command that removes the files which mark its folder as the workspace (.git, " +
			"go.mod, …) makes the next start use an enclosing project, if there is one in the home folder",
		"denial events require CAP_AUDIT_READ, and Landlock ABI 7 for files; the probes that every C library makes (clone3, a socket for nscd) " +
			"cause none",
	}
	if abi >= 10 {
		gaps = append(gaps, "if net grants UDP, a process that knows the port which the kernel has chosen for a socket of the session can send datagrams to it")
	}
	if abi < 6 {
		gaps = append(gaps, "signals to processes of the same user outside the session aren't mediated before Landlock ABI 6")
	}
	if abi < 5 {
		gaps = append(gaps, "ioctl on readable device files isn't mediated before Landlock ABI 5")
	}
	gaps = append(gaps,
		"denies too much: /proc entries of the session's own processes aren't readable as root (which could also read the kernel's secrets "+
			"there), without the built-in rules, and if a rule denies anything in /proc",
		"denies too much: extended attributes, and so access control lists, can't be set",
		"denies too much: a granted folder itself can't be removed or renamed unless the grants of its parent folder allow it",
		"denies too much: renaming onto an existing file requires create and delete there, not just update",
		"denies too much: renaming or linking into another folder requires create and delete on both, and fails with EXDEV otherwise, after "+
			"which programs copy",
		"denies too much: io_uring is denied even if a policy allows it by name: system call filters don't see its operations",
		"denies too much: if commands are restricted, or if the session may execute nothing that it writes, executable memory files can't be "+
			"created (memfd_create without MFD_NOEXEC_SEAL), unless vm.memfd_noexec is 1",
		"denies too much: a process can set its own priority and limits, not those of its children or of its other threads",
		"denies too much: if fs is restricted, a file can't be truncated by opening it for reading (O_RDONLY with O_TRUNC), and openat2 "+
			"is missing: on an overlay Landlock is asked only after the truncation")
	if abi < 9 {
		gaps = append(gaps, "denies too much: if fs is restricted, no unix socket can be created (socketpair works), as unix sockets with a "+
			"path can't be distinguished before Landlock ABI 9")
	}
	if abi < 3 {
		gaps = append(gaps, "denies too much: truncate(2) by path is denied before Landlock ABI 3")
	}
	if abi < 2 {
		gaps = append(gaps, "denies too much: files can't be renamed or linked into another folder before Landlock ABI 2")
	}
	return gaps
}

// OthersInProc is the stated gap of sessions in the PID namespace of others.
const OthersInProc = "if the built-in rules let an ordinary user's session read its own /proc entries, it can read everything in /proc that every user " +
	"may read: command lines, names, states, limits, mounts, control groups and descriptor numbers of other processes, the machine's " +
	"network tables, the kernel's command line and the names of the user's keys; not memory, environment and open files of other processes"
