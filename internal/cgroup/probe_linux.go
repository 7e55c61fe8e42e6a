package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Probe inspects the machine without changing it.
func Probe() Support {
	f, err := probe()
	if err != nil && f.Why == "" {
		f.Why = err.Error()
	}
	return f
}

func probe() (f Support, err error) {
	var v2 mount
	if f.Mode, v2, err = mountedHierarchies(); err != nil {
		return f, err
	}
	if f.Mount = v2.point; f.Mount == "" {
		return f, fmt.Errorf("cgroup v2 isn't mounted (`mount -t cgroup2 cgroup2 /sys/fs/cgroup`)")
	}
	if f.Base, err = base(v2); err != nil {
		return f, err
	}
	f.Controllers, err = controllers(f)
	f.Why = missingControllers(f)
	return f, err
}

// mountedHierarchies returns the mode, and where version 2 is mounted.
func mountedHierarchies() (m Mode, v2 mount, err error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return m, v2, err
	}
	mounts, err := parseMountinfo(text)
	if err != nil {
		return m, v2, err
	}
	m, v2 = modeOf(mounts)
	return m, v2, nil
}

// ancestors returns the cgroups of a process, from the highest visible one to its own.
func ancestors(process string, v2 mount) ([]string, error) {
	text, err := os.ReadFile("/proc/" + process + "/cgroup")
	if err != nil {
		return nil, err
	}
	own, ok := ownPath(text)
	chain, ok2 := pathsBelow(v2.root, own)
	if !ok || !ok2 {
		return nil, fmt.Errorf("process %s's cgroup %q isn't visible below %s", process, own, v2.point)
	}
	return chain, nil
}

// base returns the folder in which this user may create cgroups: the highest writable ancestor of its own cgroup. Write access to
// cgroup.procs there permits moving processes within it.
func base(v2 mount) (string, error) {
	chain, err := ancestors("self", v2)
	if err != nil {
		return "", err
	}
	err = unix.EACCES
	for _, dir := range chain {
		full := filepath.Join(v2.point, dir)
		if err = writable(full); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("this user may change no cgroup below %s (%w): run as root, or start it with "+
		"`systemd-run --user --scope -p Delegate=yes`", v2.point, err)
}

func writable(dir string) error {
	for _, p := range []string{dir, dir + "/cgroup.procs"} {
		if err := unix.Faccessat(unix.AT_FDCWD, p, unix.W_OK, unix.AT_EACCESS); err != nil {
			return err
		}
	}
	return nil
}

// controllers lists the controllers that the base can delegate to its children. The root always can. Another cgroup with processes
// of its own can only delegate those that it delegates already.
func controllers(f Support) ([]string, error) {
	dir := filepath.Join(f.Mount, f.Base)
	have, err := words(dir + "/cgroup.controllers")
	if err != nil || f.Base == "/" {
		return have, err
	}
	procs, err := words(dir + "/cgroup.procs")
	if err != nil {
		return nil, err
	}
	if len(procs) > 0 || unix.Faccessat(unix.AT_FDCWD, dir+"/cgroup.subtree_control", unix.W_OK, unix.AT_EACCESS) != nil {
		return words(dir + "/cgroup.subtree_control")
	}
	return have, nil
}

func words(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	return strings.Fields(string(b)), err
}
