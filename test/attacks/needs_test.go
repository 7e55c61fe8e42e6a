//go:build linux

package attacks

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Each returns the feature that this machine lacks for an attack, as "needs …"; "" for none.

func python() string {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		return "needs python3"
	}
	return ""
}

func amd64() string {
	if runtime.GOARCH != "amd64" {
		return "needs amd64"
	}
	return ""
}

// setuidHere: only root can make a set-user-ID root program, and it counts only where the mount isn't nosuid.
func setuidHere() string {
	var st unix.Statfs_t
	if os.Getuid() != 0 {
		return "needs root"
	}
	if unix.Statfs("/tmp", &st) == nil && st.Flags&unix.ST_NOSUID != 0 {
		return "needs a /tmp without nosuid"
	}
	return ""
}

// cgroups: the tests make one and move processes there.
func cgroups() string {
	var st unix.Statfs_t
	if unix.Statfs("/sys/fs/cgroup", &st) != nil || st.Type != unix.CGROUP2_SUPER_MAGIC || unix.Access("/sys/fs/cgroup/cgroup.procs", unix.W_OK) != nil {
		return "needs a control group hierarchy (v2) that can be written"
	}
	return ""
}

// twoProcessors: one thread of the attack changes what another one's system call reads.
func twoProcessors() string {
	if runtime.NumCPU() < 2 {
		return "needs two processors"
	}
	return ""
}

func root() string {
	if os.Getuid() != 0 {
		return "needs root"
	}
	return ""
}

// binfmt: the tests register interpreters, and only root may.
func binfmt() string {
	if os.Getuid() != 0 {
		return "needs root"
	}
	if unix.Access(binfmtDir+"/register", unix.F_OK) != nil && unix.Mount("binfmt_misc", binfmtDir, "binfmt_misc", 0, "") != nil {
		return "needs binfmt_misc"
	}
	return ""
}
