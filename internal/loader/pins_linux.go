package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
)

// partial is the suffix of a folder that isn't complete yet.
const partial = "-partial"

// mountBPF makes sure that a BPF file system is mounted; mounted is true if it wasn't before.
func mountBPF() (mounted bool, err error) {
	if there, err := bpffs.Mounted(); there || err != nil {
		return false, err
	}
	err = unix.Mount("bpf", bpffs.FS, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_RELATIME, "mode=0700")
	if err != nil {
		return false, fmt.Errorf("mount a BPF file system on %s: %w", bpffs.FS, err)
	}
	return true, nil
}

// pinName is the name of a map's pin. The BPF file system rejects dots.
func pinName(name string) string { return strings.TrimPrefix(name, ".") }

// removeStale removes incomplete folders of dead processes, and the state of other versions that confine no process any more.
func removeStale(note func(string)) error {
	entries, err := os.ReadDir(bpffs.Root)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := filepath.Join(bpffs.Root, e.Name())
		if dir == bpffs.Net {
			continue
		}
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

// remove removes one version's state from the kernel, or returns the number of its sessions.
func remove(dir string) (sessions int, err error) {
	l, err := openLock(filepath.Base(dir))
	if err != nil {
		return 0, err
	}
	defer l.close()
	err = l.with(func() error {
		if sessions, err = countSessions(dir); err != nil || sessions > 0 {
			return err
		}
		return discard(dir)
	})
	return sessions, err
}

// discard renames a folder and removes it: if that's interrupted, the folder isn't mistaken for a complete one.
func discard(dir string) error {
	going := dir + partial
	if err := errors.Join(os.RemoveAll(going), os.Rename(dir, going)); err != nil {
		return err
	}
	return os.RemoveAll(going)
}

// countSessions counts a version's sessions. In every version, struct session begins with id and tasks (bpf/lib/session.h).
func countSessions(dir string) (n int, err error) {
	m, err := ebpf.LoadPinnedMap(filepath.Join(dir, "sessions"), nil)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", dir, err)
	}
	defer m.Close()
	value := make([]byte, m.ValueSize())
	for slot := range m.MaxEntries() {
		if err := m.Lookup(slot, value); err != nil {
			return 0, fmt.Errorf("read the sessions in %s: %w", dir, err)
		}
		if binary.NativeEndian.Uint64(value) != 0 && binary.NativeEndian.Uint32(value[8:]) != 0 {
			n++
		}
	}
	return n, nil
}
