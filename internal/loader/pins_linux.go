package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Where toolguard's state in the kernel is pinned: a folder for each version, which appears in one piece when everything in
// it is in place. The programs of several versions can be attached at once: each knows only its own sessions.
const (
	bpffs   = "/sys/fs/bpf"
	pinned  = bpffs + "/toolguard"
	current = pinned + "/" + version
)

// mountBPF makes sure that there is a BPF file system to pin in; mounted says that it had to be mounted.
func mountBPF() (mounted bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(bpffs, &st); err != nil {
		return false, fmt.Errorf("look at %s: %w", bpffs, err)
	}
	if st.Type == unix.BPF_FS_MAGIC {
		return false, nil
	}
	err = unix.Mount("bpf", bpffs, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RELATIME, "mode=0700")
	if err != nil {
		return false, fmt.Errorf("mount a BPF file system on %s: %w", bpffs, err)
	}
	return true, nil
}

// mkdir makes a folder for root alone, or makes sure that the one that is there is.
func mkdir(path string) error {
	if err := os.Mkdir(path, 0o700); err == nil || !errors.Is(err, fs.ErrExist) {
		return err
	}
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return &fs.PathError{Op: "lstat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || st.Uid != 0 || st.Mode&0o077 != 0 {
		return fmt.Errorf("%s isn't a folder of root's alone: remove it", path)
	}
	return nil
}

// pinName is what a map's pin is called. The BPF file system takes no dots.
func pinName(name string) string { return strings.TrimPrefix(name, ".") }
