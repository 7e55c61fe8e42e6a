package backend

import (
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/landlock"
	"github.com/toolguard/toolguard/internal/loader"
	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/seccomp"
)

// bpf is the backend of the BPF LSM programs: they decide about files, programs and other processes. Landlock decides about TCP ports if no other
// mechanism does. It has no rules about files here: it would deny before the programs are called, and not every kernel reports its denials. With
// check, the machine is checked again.
func bpf(check bool) (Backend, error) {
	if err := loader.Ready(check); err != nil {
		return Backend{}, fmt.Errorf("the bpf backend can't be used here: %w", err)
	}
	net := &Network{}
	return Backend{
		name:    "bpf",
		Network: net,
		gaps:    bpfGaps,
		Level:   seccomp.FullMediation,
		Maker:   ThisProcess,
		report: func(b *Backend, c *policy.Compiled) []policy.Enforceability {
			var err error
			b.Image, err = image.New(c, 1)
			abi, _ := LandlockABI() // 0 without Landlock, which enforces no port
			ports := net.report(c, landlock.ReportPorts(c, abi))
			ports = reportRings(c, ports, seccomp.Backend{ABI: seccomp.FullMediation, Net: net.Enforces()})
			return slices.Concat(reportPrograms(c, err), ports, reportEnv(c), reportLimits(c), reportCgroup(c), reportAudit(c, "bpf", ""))
		},
	}, nil
}

var bpfGaps = []string{
	"stat, access, reading extended attributes and opening a path with O_PATH aren't mediated: names, sizes and attributes are visible",
	"descriptors that toolguard's caller passes on 0, 1, 2 or --pass-fd were opened outside the session",
	"denies too much: memory mapped from a file on an overlay can't be made executable afterwards, since Linux 6.5",
	"denies too much: on btrfs, a rule about a file with several hard links also applies to the file with that inode number in " +
		"another subvolume",
	"denies too much: such a rule also applies to a new file that reuses the inode number of a removed one",
	"denies too much: on ecryptfs no symlink's target can be read",
	"denies too much: a pipe, or unnamed memory, can be opened or truncated through /proc only with the access of the process's own " +
		"descriptor",
	"denies too much: a service outside the session can't answer a datagram socket without a path that isn't connected to it",
	"denies too much: no file can be created as setuid or setgid, so programs that copy such a file with its mode fail",
	"denies too much: before Linux 6.2 ftruncate needs update, also on a file that the process has just created",
	"denies too much: before Linux 6.2, if the kernel is switched to full preemption (preempt=full) while sessions run, some of their " +
		"operations are denied whatever their policies say; these denials are counted, but not reported",
	"a program that enters a Landlock domain or a system call filter of its own can hide the denials of operations that its own " +
		"restrictions deny, too",
	"on a kernel with full preemption (preempt=full) some denied system calls aren't reported, if there are very many",
	"a program that only checks whether it may execute a file (AT_EXECVE_CHECK, Linux 6.14) with arguments longer than 768 bytes, or " +
		"one of 255, gets the answer yes whatever `args` says",
	landlock.TruncateByServers,
	"where fs isn't restricted, services behind unix sockets (systemd-resolved, D-Bus, a container engine) do for a session what its " +
		"network rules deny",
	"hard links from elsewhere to files beneath a restricted folder, made before the session, are other files",
	"names are compared byte by byte: on a file system that ignores case (vfat, exfat, ntfs, folders with casefold), or has short " +
		"names for long ones (vfat), a rule doesn't apply to other spellings of its name",
	"the device files of disks are files like others: a process that may read all of /dev, as root, reads the disk blocks of files " +
		"that rules deny elsewhere",
	"the kernel's own files are files like others: a policy that lets root write all of them (`fs = \"allow\"`) lets it " +
		"reboot the machine (/proc/sysrq-trigger), have the kernel run programs outside (core_pattern and modprobe in " +
		"/proc/sys/kernel, binfmt_misc, uevent_helper in /sys), and reach devices and disks (/dev); " + landlock.ProcPriorities,
	"rules about programs and arguments don't control what a program does once it runs: the process that starts it may trace it or " +
		"preload code into it, and a program may execute readable files from memory; the caller chooses the folder in the program's " +
		"argument 0, from which python, for example, loads its libraries, and the name of the script that an interpreter gets (AT_EXECFN)",
	"the layers of an overlay have files of their own: a file that a rule denies on the overlay can be read there, unless a rule " +
		"denies that, too",
	"without --workspace or a policy's `workspace`, a command that removes the files that mark its folder as the workspace (.git, " +
		"go.mod, …) moves the workspace of the next start to an enclosing project, if there is one beneath the home",
	"System V and POSIX message queues, semaphores and shared memory are shared with other processes of the same user (not with " +
		"syscalls = \"strict\")",
	"when toolguard is killed (kill -9), only the session's first process ends with it: the others continue, under its restrictions " +
		"but without its wall time, and their TMPDIR stays, their cgroup until the next start",
}

// reportPrograms returns the rows of the rules that the BPF programs enforce, unless imageErr is why they can't have the policy.
func reportPrograms(c *policy.Compiled, imageErr error) (rows []policy.Enforceability) {
	add := func(r *policy.Rule, advisory bool, partly string) {
		row := policy.Enforceability{ID: r.ID, Rule: r, Position: r.Position, Status: policy.Enforced, By: "bpf", Advisory: advisory}
		switch {
		case imageErr != nil:
			row.Status, row.Why = policy.NotEnforceable, imageErr.Error()
		case partly != "":
			row.Status, row.Why = policy.Partly, partly
		}
		rows = append(rows, row)
	}
	for _, l := range c.Layers {
		for _, r := range l.FS.Rules() {
			add(r, false, "")
		}
		for _, r := range l.Protect.Rules() {
			add(r, l.Mode == policy.ProtectAuto, "")
		}
		for _, r := range l.Secrets.Rules() {
			add(r, l.SecretsMode == policy.ProtectAuto, "")
		}
		for _, r := range l.Commands.Rules() {
			partly := ""
			if r.Command.HasEnvs {
				partly = "its variables are removed only if the session starts with this program, not if the command starts it"
			}
			add(r, false, partly)
		}
	}
	return rows
}
