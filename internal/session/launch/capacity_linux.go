package launch

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/proc"
)

// neededProcesses is the number of processes and threads that a session needs to start: toolguard's, and a few for the command.
const neededProcesses = ownThreads + 4

// reservedProcesses is the part of most, the user's limit of processes and threads (RLIMIT_NPROC), that the command may not use, so that another
// toolguard, and a shell that ends the session, can always start.
func reservedProcesses(most uint64) uint64 { return max(most/16, min(64, most/2)) }

// ReserveProcesses adds the command's limit of processes and threads to its limits, and raises toolguard's to the maximum.
func ReserveProcesses(limits map[int]unix.Rlimit) error {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil {
		return os.NewSyscallError("getrlimit", err)
	}
	commands := own
	if commands.Max != unix.RLIM_INFINITY {
		commands.Max -= reservedProcesses(own.Max)
	}
	limits[unix.RLIMIT_NPROC] = unix.Rlimit{Cur: min(commands.Cur, commands.Max), Max: commands.Max}
	own.Cur = own.Max
	return os.NewSyscallError("setrlimit", unix.Setrlimit(unix.RLIMIT_NPROC, &own))
}

// CheckCapacity returns an error if toolguard couldn't make its threads, or the command a process. Without the check, the Go runtime would crash
// toolguard.
func CheckCapacity() error {
	if err := checkOpenFiles(); err != nil {
		return err
	}
	if err := checkUserCapacity(); err != nil {
		return err
	}
	return checkCgroupCapacity()
}

// neededFiles is the number of files that toolguard may open at a time: one for each path that a policy grants, about a hundred for every
// command. The Go runtime has raised the soft limit to the hard one.
const neededFiles = 160

func checkOpenFiles() error {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil || own.Cur >= neededFiles {
		return nil
	}
	return fmt.Errorf("the limit of open files (ulimit -n) is %d, and toolguard needs %d: raise it", own.Cur, neededFiles)
}

// checkUserCapacity checks RLIMIT_NPROC, which the kernel doesn't apply to root (copy_process). It counts the user's threads only if all
// threads of the machine, whose number is known at once, exceed the limit.
func checkUserCapacity() error {
	var own unix.Rlimit
	uid := os.Getuid()
	if err := unix.Getrlimit(unix.RLIMIT_NPROC, &own); err != nil || own.Max == unix.RLIM_INFINITY || uid == 0 {
		return nil
	}
	most := own.Max - reservedProcesses(own.Max)
	if fits(machineThreads(), most) || !inFirstUserNamespace() { // in another one the kernel counts the threads in that namespace alone
		return nil
	}
	now := userThreads(uid)
	if fits(now, most) {
		return nil
	}
	least := needed(now)
	least += min(least, 64)
	return fmt.Errorf("the limit of this user's processes and threads (ulimit -u) is %d, and there are %d: toolguard needs %d, and lets "+
		"the command use %d; end some, or raise the limit to %d", own.Max, now, ownThreads, most, least)
}

// fits reports whether a session can start with now processes and threads of at most most.
func fits(now, most uint64) bool { return needed(now) <= most }

// needed returns the number of processes and threads that there are once a session has started, of now ones, which include toolguard's.
func needed(now uint64) uint64 { return now + neededProcesses - min(now, uint64(kernelThreads())) }

// machineThreads returns the number of all threads (proc_loadavg(5)), or more than any limit if it can't be read.
func machineThreads() uint64 {
	_, after, _ := bytes.Cut(proc.ReadShort("/proc/loadavg"), []byte("/"))
	count, _, _ := bytes.Cut(after, []byte(" "))
	n, err := strconv.ParseUint(string(count), 10, 32)
	if err != nil {
		return 1 << 32
	}
	return n
}

// inFirstUserNamespace reports whether all user IDs are mapped to themselves, which only the first user namespace does.
func inFirstUserNamespace() bool {
	return strings.Join(strings.Fields(string(proc.ReadShort("/proc/self/uid_map"))), " ") == "0 0 4294967295"
}

// userThreads counts the threads of a user's processes, by the real user ID, as the kernel does.
func userThreads(uid int) (n uint64) {
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		status, _ := proc.ReadBeginning(file) // empty if it has ended
		owner := proc.StatusField(status, "Uid")
		if len(owner) == 0 || owner[0] != strconv.Itoa(uid) {
			continue
		}
		if threads := proc.StatusField(status, "Threads"); len(threads) == 1 {
			count, _ := strconv.ParseUint(threads[0], 10, 32)
			n += count
		}
	}
	return n
}

// checkCgroupCapacity checks the pids.max of this process's cgroup and of its parents, in the usual mount points.
func checkCgroupCapacity() error {
	own := proc.ReadShort("/proc/self/cgroup")
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		var mount string
		switch {
		case len(f) == 3 && f[1] == "":
			mount = "/sys/fs/cgroup"
		case len(f) == 3 && f[1] == "pids":
			mount = "/sys/fs/cgroup/pids"
		default:
			continue
		}
		for dir := filepath.Join(mount, f[2]); strings.HasPrefix(dir, mount); dir = filepath.Dir(dir) {
			if err := checkPidsMax(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkPidsMax(dir string) error {
	most, err := strconv.ParseUint(string(bytes.TrimSpace(proc.ReadShort(dir+"/pids.max"))), 10, 64)
	if err != nil {
		return nil // no limit, or no such file
	}
	now, err := strconv.ParseUint(string(bytes.TrimSpace(proc.ReadShort(dir+"/pids.current"))), 10, 64)
	if err != nil || fits(now, most) {
		return nil
	}
	return fmt.Errorf("the cgroup %s may have %d processes and threads (pids.max), and has %d: toolguard needs %d; end some, or raise the limit to %d",
		dir, most, now, ownThreads, needed(now))
}
