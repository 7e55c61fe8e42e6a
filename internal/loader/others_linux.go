package loader

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf"
)

// ErrOver says that a session isn't there any more: nothing of it lives.
var ErrOver = errors.New("the session is over")

// Resume takes over a session whose owner has died. What it was told and what not is where that left off.
func (k *Kernel) Resume(id uint64) (*Session, error) {
	own, err := openLock(version)
	if err != nil {
		return nil, err
	}
	s := &Session{k: k, id: id, lock: own}
	if err := k.lock.hold(s.resume); err != nil {
		s.close()
		return nil, fmt.Errorf("take the session over: %w", err)
	}
	return s, nil
}

func (s *Session) resume() (err error) {
	s.slot = slices.IndexFunc(s.k.sessions, func(at kernelSession) bool { return at.Id == s.id })
	if s.slot < 0 {
		return ErrOver
	}
	s.at = &s.k.sessions[s.slot]
	if err := s.lock.own(s.slot); err != nil {
		return fmt.Errorf("another toolguard has it: %w", err)
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

// Freeze keeps the session from making new tasks, for good: what is left of it can be ended one by one.
func (s *Session) Freeze() {
	atomic.OrUint32(&s.at.Flags, uint32(flagEnding))
}

// SessionOf is the session that a process is in, by its pidfd; 0: none.
func (k *Kernel) SessionOf(pidfd int) (id uint64, err error) {
	var l kernelLabel
	switch err := k.labels.Lookup(int32(pidfd), &l); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("look at a process's label: %w", err)
	}
	return l.Id, nil
}
