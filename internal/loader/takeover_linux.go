package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/toolguard/toolguard/internal/loader/bpffs"
)

// ErrEnded means that the session has ended and has no task.
var ErrEnded = errors.New("the session has ended")

// Resume takes over a session whose owner has died. It continues with the first unreported event.
func (k *Kernel) Resume(id uint64) (*Session, error) {
	own, err := openLock(version)
	if err != nil {
		return nil, err
	}
	s := &Session{k: k, id: id, lock: own}
	if err := k.lock.with(s.resume); err != nil {
		s.close()
		return nil, fmt.Errorf("take the session over: %w", err)
	}
	return s, nil
}

func (s *Session) resume() (err error) {
	s.slot = slices.IndexFunc(s.k.sessions, func(at kernelSession) bool { return at.Id == s.id })
	if s.slot < 0 {
		return ErrEnded
	}
	s.at = &s.k.sessions[s.slot]
	if err := s.lock.own(s.slot); err != nil {
		return fmt.Errorf("another process of toolguard owns it: %w", err)
	}
	if s.at.Ring == noRing { // its owner has reported its end, and died before it freed the slot
		if atomic.LoadUint32(&s.at.Living) != 0 {
			return errors.New("it was being ended, and some of its processes still run")
		}
		if atomic.LoadUint32(&s.at.Tasks) == 0 {
			free(s.at)
		}
		return ErrEnded
	}
	var ring ebpf.MapID
	if err := s.k.rings.Lookup(s.at.Ring, &ring); err != nil {
		return fmt.Errorf("find its ring: %w", err)
	}
	if s.ring, err = ebpf.NewMapFromID(ring); err != nil {
		return err
	}
	s.events, err = newReader(s.ring)
	return err
}

// Detach releases a session that was taken over. The session stays as it is.
func (s *Session) Detach() { s.close() }

// DenyForks denies the session all new tasks, irrevocably, so that the remaining ones can be killed one by one.
func (s *Session) DenyForks() {
	atomic.OrUint32(&s.at.Flags, uint32(flagEnding))
}

// SessionOf returns the id of the session of a process, by its pidfd; 0: none.
func (k *Kernel) SessionOf(pidfd int) (id uint64, err error) {
	var l kernelLabel
	switch err := k.labels.Lookup(int32(pidfd), &l); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("read a process's label: %w", err)
	}
	return l.Id, nil
}

// MarkListener lets confined processes connect to a listening unix socket, whatever their policies.
func (k *Kernel) MarkListener(socket int) error {
	if err := k.makers.Put(int32(socket), &kernelMaker{}); err != nil { // TOOLGUARDD (bpf/lsm/unix.c)
		return fmt.Errorf("let confined processes connect: %w", err)
	}
	return nil
}

// SessionOfPeer returns the id of the session that made an accepted connection, which the programs recorded, or of the client process, by
// its pidfd; 0: none.
func (k *Kernel) SessionOfPeer(conn, pidfd int) (id uint64, err error) {
	var m kernelMaker
	switch err := k.makers.Lookup(int32(conn), &m); {
	case err == nil:
		return m.Session, nil
	case !errors.Is(err, ebpf.ErrKeyNotExist):
		return 0, fmt.Errorf("look up the maker of a connection: %w", err)
	}
	if id, err := k.SessionOf(pidfd); id != 0 || err != nil {
		return id, err
	}
	return 0, confinedByOtherVersion(pidfd)
}

// ErrOtherVersion means that a process is confined by another version's programs.
var ErrOtherVersion = errors.New("another version of toolguard confines the client")

func confinedByOtherVersion(pidfd int) error {
	dirs, err := os.ReadDir(bpffs.Root)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if d.Name() == version || strings.HasSuffix(d.Name(), partial) {
			continue
		}
		if err := confinedBy(filepath.Join(bpffs.Root, d.Name(), "labels"), pidfd); err != nil {
			return err
		}
	}
	return nil
}

// confinedBy looks for a process's label in a version's map, without reading it.
func confinedBy(labels string, pidfd int) error {
	m, err := ebpf.LoadPinnedMap(labels, nil)
	if errors.Is(err, fs.ErrNotExist) { // it was removed meanwhile, so that it confined no process
		return nil
	} else if err != nil {
		return err
	}
	defer m.Close()
	err = m.Lookup(int32(pidfd), make([]byte, m.ValueSize()))
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	return errors.Join(ErrOtherVersion, err)
}
