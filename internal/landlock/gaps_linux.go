package landlock

// Gaps of every backend, or parts of them.
const (
	EmptiedByServers = "on network file systems that have the server open and empty a file at once (NFS 4, SMB, Ceph), a file whose " +
		"name isn't known here yet is empty by the time that the kernel asks whether it may be opened so (O_TRUNC)"
	ByProc = "and who may write /proc changes by it the priority of the user's other processes, and which one is killed first " +
		"where memory runs out"
)

// StatedGaps is what this backend can't see or hold, whatever the policy says, on a kernel with that ABI. Gaps that deny too
// much come last.
func StatedGaps(abi int) []string {
	gaps := []string{
		"a file can be created as setuid or setgid: the first byte that is written takes that off, unless who writes may keep it (CAP_FSETID)",
		"chmod, chown, utimes and file attributes on files that the session's user owns aren't mediated (setuid and setgid " +
			"are refused)",
		"inotify on files that may be seen isn't mediated: names and times of accesses are visible",
		"stat, access, readlink, reading extended attributes and opening a path as a mere handle (O_PATH) aren't mediated: names, " +
			"sizes, link texts and attributes are visible",
		"where the built-in rules let an ordinary user's session read its own /proc entries, it can read there what every user may: of other " +
			"processes the command lines, names, states, limits, mounts, control groups and numbers of descriptors, the machine's network tables, " +
			"the kernel's own command line and the user's own keys by name; not others' memory, environment and open files",
		"mapping a readable file as code isn't mediated: `ld.so FILE` and dlopen go round an execute denial",
		"what a file system does by calls of its own (ioctl) isn't mediated: btrfs makes and removes subvolumes and snapshots where " +
			"a folder may be read",
		"an interpreter that binfmt_misc opened when it was registered (flag F) is executed whatever the policy says of it",
		"a grant is on the file or folder that was there at the start, under every name it has (hard links, bind mounts), and " +
			"stays on it when a program outside moves it",
		"the kernel's own files are files like others: a policy that lets root write all of them (`fs = \"allow\"`) lets it " +
			"reboot the machine (/proc/sysrq-trigger), have the kernel run programs outside (core_pattern and modprobe in " +
			"/proc/sys/kernel, binfmt_misc, uevent_helper in /sys), and reach devices and disks (/dev); " + ByProc,
		EmptiedByServers,
		"files without a name (O_TMPFILE) need update, not create, and become visible only with create",
		"System V and POSIX message queues, semaphores and shared memory, and the choice of processors for a process, are shared " +
			"with other processes of the same user (shared memory and semaphores not with syscalls = \"strict\")",
		"where unix sockets can be made, a session may listen on an abstract name, also where net is denied: programs outside that look " +
			"for a service of that name find the session",
		"processes that trace each other in a circle, each to stop the other as it ends, no signal ends: they stay, stopped, and so does " +
			"what they hold of the session's memory and files; toolguard says so and doesn't wait for them",
		"descriptors that somebody outside passes in through a unix socket on 0, 1, 2 or --pass-fd aren't mediated: they were " +
			"opened outside",
		"a pipe on 0, 1, 2 or --pass-fd can be opened at its other end (/proc/self/fd): a shell that reads from it what it executes " +
			"next executes what the command writes there (not with its input from elsewhere, as by < /dev/null)",
		"a program that puts itself under a Landlock domain or a system call filter of its own can hide the denials of what that " +
			"refuses too",
		"when toolguard is killed (kill -9), only the session's first process ends with it: the others go on, under its " +
			"restrictions but without its wall time, and their TMPDIR stays, their cgroup until the next start",
		"without --workspace or a policy's `workspace`, a command that takes away what makes its folder the workspace (.git, " +
			"go.mod, …) moves the next start's to a project around it, if there is one beneath the home",
		"denial events need CAP_AUDIT_READ, and Landlock ABI 7 for files; the probing that every C " +
			"library does (clone3, a socket for nscd) leaves none",
	}
	if abi >= 10 {
		gaps = append(gaps, "where net grants UDP, who knows the port that the kernel has chosen for a socket of the session can send datagrams to it")
	}
	if abi < 6 {
		gaps = append(gaps, "signals to processes of the same user outside the session aren't mediated before Landlock ABI 6")
	}
	if abi < 5 {
		gaps = append(gaps, "ioctl on device files that may be read isn't mediated before Landlock ABI 5")
	}
	gaps = append(gaps,
		"denies too much: /proc entries of the session's own processes aren't readable as root (who could read the kernel's secrets beside "+
			"them), without the built-in rules, and where a rule takes away something of /proc",
		"denies too much: extended attributes, and with them access control lists, can't be set",
		"denies too much: a granted folder can't itself be removed or renamed unless the folder above it lets it",
		"denies too much: renaming onto an existing file needs create and delete there, not just update",
		"denies too much: renaming or linking into another folder needs create and delete on both, and fails with EXDEV "+
			"otherwise, upon which programs copy",
		"denies too much: io_uring stays refused even where a policy allows it by name: what is done by it no filter of system calls sees",
		"denies too much: where commands are restricted, or the session may execute nothing that it writes, no memory file can be made "+
			"that could be executed (memfd_create without MFD_NOEXEC_SEAL), unless vm.memfd_noexec is 1",
		"denies too much: a process can set its own priority and limits, not those of its children or of its other threads",
		"denies too much: where fs is restricted no file can be emptied by opening it for reading (O_RDONLY with O_TRUNC), and openat2 "+
			"isn't there: on an overlay Landlock is asked when that has happened")
	if abi < 9 {
		gaps = append(gaps, "denies too much: where fs is restricted no unix socket can be made (pairs of connected stream "+
			"sockets can), as unix sockets by path can't be told apart before Landlock ABI 9")
	}
	if abi < 3 {
		gaps = append(gaps, "denies too much: truncate(2) by path is refused before Landlock ABI 3")
	}
	if abi < 2 {
		gaps = append(gaps, "denies too much: nothing can be renamed or linked into another folder before Landlock ABI 2")
	}
	return gaps
}
