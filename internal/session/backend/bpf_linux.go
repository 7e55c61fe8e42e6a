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

// bpf is the backend of the kernel's own programs: they decide about files, programs and other processes; Landlock only about
// TCP ports, where nobody else does. It has no say in files here: it would refuse before the programs are asked, and not every kernel tells what
// Landlock refuses. Whether the machine can have it is looked at again, or taken as known.
func bpf(again bool) (Backend, error) {
	if err := loader.Ready(again); err != nil {
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
			abi, _ := LandlockABI() // without Landlock it's 0, which holds no port
			ports := net.report(c, landlock.ReportPorts(c, abi))
			ports = reportRings(c, ports, seccomp.Backend{ABI: seccomp.FullMediation, Net: net.Enforces()})
			return slices.Concat(reportPrograms(c, err), ports, reportEnv(c), reportLimits(c), reportCgroup(c), reportAudit(c, "bpf", ""))
		},
	}, nil
}

var bpfGaps = []string{
	"stat, access, reading extended attributes and opening a path as a mere handle (O_PATH) aren't mediated: names, sizes and attributes are visible",
	"descriptors that somebody outside passes in on 0, 1, 2 or --pass-fd were opened outside",
	"denies too much: what was mapped from a file on an overlay can't be made executable afterwards, since Linux 6.5",
	"denies too much: on btrfs, what a rule says of a file with several hard links holds also to the file of that number in another subvolume",
	"denies too much: it holds also to a file that gets the number of one that is gone",
	"denies too much: on ecryptfs no symlink's text can be read",
	"denies too much: a pipe, or memory without a name, can be opened or cut off through /proc only as the process itself has it open, " +
		"not another",
	"denies too much: a service outside can't answer a datagram socket without a path that hasn't been connected to it",
	"denies too much: no file can be created as setuid or setgid, so that programs which copy one with its mode at once fail",
	"denies too much: before Linux 6.2 ftruncate needs update, also on a file that the process has just created",
	"denies too much: before Linux 6.2, where the kernel is set to preempt itself (preempt=full) while sessions run, some of what they do is " +
		"denied whatever their policies say; it's counted, and told by nobody",
	"a program that puts itself under a Landlock domain or a system call filter of its own can hide the denials of what that refuses too",
	"where the kernel may preempt itself (preempt=full) some of the refused system calls are told by nobody, if there are very many",
	"a program that only asks whether it may execute a file (AT_EXECVE_CHECK, Linux 6.14) with arguments longer than 768 bytes, " +
		"or one of 255, is told yes whatever `args` says",
	landlock.TruncateByServers,
	"where fs isn't restricted, services behind unix sockets (systemd-resolved, D-Bus, a container engine) do for a session what its rules " +
		"about the network refuse",
	"hard links from elsewhere to files beneath a restricted folder, made before the session, are other files",
	"names are compared byte by byte: where a file system takes upper and lower case for the same (vfat, exfat, ntfs, " +
		"folders with casefold), or has short names for long ones (vfat), a rule doesn't hold to its name written otherwise",
	"the device files of disks are files like others: whom a policy lets read all of /dev, as root, reads there what " +
		"a rule takes away elsewhere",
	"the kernel's own files are files like others: a policy that lets root write all of them (`fs = \"allow\"`) lets it " +
		"reboot the machine (/proc/sysrq-trigger), have the kernel run programs outside (core_pattern and modprobe in " +
		"/proc/sys/kernel, binfmt_misc, uevent_helper in /sys), and reach devices and disks (/dev); " + landlock.ProcPriorities,
	"what a program does once it runs is its own: who starts it may trace it or preload code into it, whatever " +
		"arguments it was to have, and what may be read can be run from memory by a program that does so; the folder in the name that it's " +
		"called by (its argument 0) is the caller's to choose, from which python, for one, takes its libraries, and so is the name that a " +
		"script's interpreter is told of the script (AT_EXECFN)",
	"the folders that an overlay is made of have files of their own: what a rule takes away on the overlay is read there, unless " +
		"a rule takes that away, too",
	"without --workspace or a policy's `workspace`, a command that takes away what makes its folder the workspace (.git, " +
		"go.mod, …) moves the next start's to a project around it, if there is one beneath the home",
	"System V and POSIX message queues, semaphores and shared memory are shared with other processes of the same user (not with " +
		"syscalls = \"strict\")",
	"when toolguard is killed (kill -9), only the session's first process ends with it: the others go on, under its restrictions " +
		"but without its wall time, and their TMPDIR stays, their cgroup until the next start",
}

// reportPrograms returns the rows of what the programs decide: all of it, if they can be given it.
func reportPrograms(c *policy.Compiled, impossible error) (rows []policy.Enforceability) {
	add := func(r *policy.Rule, advisory bool, partly string) {
		row := policy.Enforceability{ID: r.ID, Rule: r, Position: r.Position, Status: policy.Enforced, By: "bpf", Advisory: advisory}
		switch {
		case impossible != nil:
			row.Status, row.Why = policy.NotEnforceable, impossible.Error()
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
				partly = "only where the session starts with this program are its variables taken away, not where the command starts it"
			}
			add(r, false, partly)
		}
	}
	return rows
}
