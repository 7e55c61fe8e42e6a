package cgroupsock

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
)

// Verifying the programs is nearly all of the time that a session's start needs here. So the programs and maps of an ended session are
// emptied and pinned for the next one, and Ahead loads a set in advance. Each set has a folder, which is moved into the pool when it's
// complete, and out of it by the process that acquires it. A set that isn't pinned belongs to a session and is freed with it, also if
// toolguard is killed.
const (
	current  = bpffs.Net + "/" + version
	free     = "free-"
	partial  = "partial-"
	poolSize = 4 // sets in the pool
)

// Preload makes sure that the pool has a set for the next session, which survives this process, and returns an error if it can't be loaded.
func Preload() error {
	if list, _ := filepath.Glob(current + "/" + free + "*"); len(list) > 0 && bpffs.Own(bpffs.Root) == nil {
		return nil
	}
	s, err := loadNew()
	if err != nil {
		return err
	}
	defer s.Close()
	return s.releaseToPool()
}

// acquire returns a set from the pool, or nil. It ignores folders that other users than root could have written to.
func acquire() *Session {
	if bpffs.Own(bpffs.Root) != nil {
		return nil
	}
	entries, err := os.ReadDir(current)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), free) {
			continue
		}
		mine := filepath.Join(current, newFolderName())
		if os.Rename(filepath.Join(current, e.Name()), mine) != nil {
			continue // another process was faster
		}
		s, err := openPinned(mine)
		if err := errors.Join(err, os.RemoveAll(mine)); err == nil {
			return s
		}
		if s != nil {
			s.Close()
		}
	}
	return nil
}

// newFolderName is a folder name that no other process uses.
func newFolderName() string { return fmt.Sprint(partial, os.Getpid(), "-", rand.Text()) }

// openPinned opens the maps and programs that are pinned in a folder.
func openPinned(dir string) (_ *Session, err error) {
	s := &Session{maps: map[string]*ebpf.Map{}, programs: map[string]*ebpf.Program{}, idle: true}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for _, name := range []string{netMapEgresses, netMapEvents, netMapImages, netMapLatests, netMapNames, netMapOriginals, netMapPeers, netMapSessions} {
		if s.maps[name], err = ebpf.LoadPinnedMap(filepath.Join(dir, name), nil); err != nil {
			return nil, err
		}
	}
	if s.image, err = ebpf.LoadPinnedMap(filepath.Join(dir, "image"), nil); err != nil {
		return nil, err
	}
	for name := range hooks {
		if s.programs[name], err = ebpf.LoadPinnedProgram(filepath.Join(dir, name), nil); err != nil {
			return nil, err
		}
	}
	return s, s.mapMemory()
}

// Detach detaches the programs from the session's cgroup, which must be empty and is about to be removed. Sockets that outlive it are no
// longer confined. After End the programs can serve another session.
func (s *Session) Detach(cgroup int) error {
	for name, p := range s.programs {
		if err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: cgroup, Program: p, Attach: hooks[name]}); err != nil {
			return fmt.Errorf("detach %s from the session's cgroup: %w", name, err)
		}
	}
	s.idle = true
	return nil
}

// releaseToPool empties a session's maps and pins them and the programs for the next session. A failure only costs that session time.
func (s *Session) releaseToPool() error {
	if !s.idle || s.image == nil {
		return nil
	}
	if ok, err := makePool(); !ok || err != nil {
		return err
	}
	*s.at = netSession{}
	for _, m := range []*ebpf.Map{s.image, s.maps[netMapNames], s.maps[netMapOriginals]} {
		if err := empty(m); err != nil {
			return err
		}
	}
	fresh := filepath.Join(current, newFolderName())
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return err
	}
	err := s.pin(fresh)
	if err == nil {
		err = os.Rename(fresh, filepath.Join(current, free+rand.Text()))
	}
	if err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	return nil
}

func (s *Session) pin(dir string) error {
	err := s.image.Pin(filepath.Join(dir, "image"))
	for name, m := range s.maps {
		err = errors.Join(err, m.Pin(filepath.Join(dir, name)))
	}
	for name, p := range s.programs {
		err = errors.Join(err, p.Pin(filepath.Join(dir, name)))
	}
	return err
}

// makePool reports whether the pool has space for a set, and removes the remains of killed processes and of other versions.
func makePool() (ok bool, err error) {
	if there, err := bpffs.Mounted(); !there || err != nil {
		return false, nil // no BPF file system to pin in
	}
	for _, dir := range []string{bpffs.Root, bpffs.Net, current} {
		err := os.Mkdir(dir, 0o700)
		if err == nil && dir == current {
			err = removeOtherVersions()
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return false, err
		}
	}
	if err := bpffs.Own(bpffs.Root); err != nil {
		return false, err
	}
	entries, err := os.ReadDir(current)
	if err != nil {
		return false, err
	}
	n := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), free) {
			n++
			continue
		}
		pid, _, _ := strings.Cut(strings.TrimPrefix(e.Name(), partial), "-")
		if _, err := os.Lstat("/proc/" + pid); errors.Is(err, fs.ErrNotExist) {
			_ = os.RemoveAll(filepath.Join(current, e.Name()))
		}
	}
	return n < poolSize, nil
}

// removeOtherVersions removes the pins of other versions, none of which is in use.
func removeOtherVersions() error {
	entries, err := os.ReadDir(bpffs.Net)
	for _, e := range entries {
		if e.Name() != version {
			err = errors.Join(err, os.RemoveAll(filepath.Join(bpffs.Net, e.Name())))
		}
	}
	return err
}

// empty removes all elements of a map.
func empty(m *ebpf.Map) error {
	for {
		key, err := m.NextKeyBytes(nil)
		if err != nil || key == nil {
			return err
		}
		if err := m.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
}
