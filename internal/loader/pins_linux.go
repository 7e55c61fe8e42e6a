package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// partial ends the name of a folder that isn't complete yet.
const partial = "-partial"

// mountBPF makes sure that there is a BPF file system to pin in; mounted says that it had to be mounted.
func mountBPF() (mounted bool, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(bpffs, &st); err != nil {
		return false, &fs.PathError{Op: "statfs", Path: bpffs, Err: err}
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

// pinName is what a map's pin is called: the BPF file system takes no dots.
func pinName(name string) string { return strings.TrimPrefix(name, ".") }

// tidy removes what died on its way here, and the state of other versions that guard nobody any more.
func tidy(note func(string)) error {
	entries, err := os.ReadDir(pinned)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Name() == networks {
			continue
		}
		dir := filepath.Join(pinned, e.Name())
		if strings.HasSuffix(dir, partial) {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			continue
		}
		n, err := remove(dir)
		if err != nil {
			return err
		}
		if n > 0 {
			note(fmt.Sprintf("%d sessions of another version of toolguard still run; its programs stay (%s) until they have ended "+
				"and toolguard is started again", n, dir))
		}
	}
	return nil
}

// remove takes one version's state out of the kernel, or returns how many sessions it still guards.
func remove(dir string) (sessions int, err error) {
	l, err := openLock(filepath.Base(dir))
	if err != nil {
		return 0, err
	}
	defer l.close()
	err = l.hold(func() error {
		if sessions, err = countSessions(dir); err != nil || sessions > 0 {
			return err
		}
		return os.RemoveAll(dir)
	})
	return sessions, err
}

// countSessions counts a version's sessions. Of every version, struct session begins with id and tasks (bpf/session.h).
func countSessions(dir string) (n int, err error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "sessions"), nil)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", dir, err)
	}
	defer m.Close()
	value := make([]byte, m.ValueSize())
	for slot := range m.MaxEntries() {
		if err := m.Lookup(slot, value); err != nil {
			return 0, fmt.Errorf("look at the sessions in %s: %w", dir, err)
		}
		if binary.NativeEndian.Uint64(value) != 0 && binary.NativeEndian.Uint32(value[8:]) != 0 {
			n++
		}
	}
	return n, nil
}
