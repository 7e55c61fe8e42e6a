package loader

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/toolguard/toolguard/internal/loader/image"
	"golang.org/x/sys/unix"
)

// Thread is one of a process's threads, by the numbers of the machine's first PID namespace.
type Thread struct{ Process, ID int }

func (t Thread) key() uint64 { return uint64(t.Process)<<32 | uint64(t.ID) }

// ExpectThread makes the kernel add a thread to the session at the thread's next hook. It can't leave the session again. The thread must
// have no_new_privs. It must be in no session or, if from isn't 0, in the session from, whose policy the new session's policy includes.
func (s *Session) ExpectThread(t Thread, from uint64) error {
	return s.k.lock.with(func() error {
		atomic.StoreUint32(s.k.starting, 1)
		return s.k.pending.Put(t.key(), kernelStart{Id: s.id, From: from, Slot: uint32(s.slot)})
	})
}

// ConfirmThread ends ExpectThread, whether or not the thread is in the session, and removes the denial of TryCanary from the session's
// events and counts. It removes no other denial: the thread and its children may have caused some already.
func (s *Session) ConfirmThread(t Thread) error {
	if err := s.k.cancel(t); err != nil {
		return err
	}
	return s.events.read(func(p *pages) {
		p.drainWhile(func(record []byte) bool {
			id, ev, err := decode(record, time.Time{})
			if err != nil || id != s.id { // of an earlier session with this ring
				return true
			}
			proof := ev.TID == t.ID && ev.Op == OpOpen && len(ev.Paths) == 1 && ev.Paths[0].Path == image.Canary
			if proof {
				atomic.AddUint64(&s.at.Denied, ^uint64(0)) // decrement: the kernel counts at the same time
				atomic.CompareAndSwapUint64(&s.at.Sequence, ev.Sequence, ev.Sequence-1)
			}
			return proof
		})
	})
}

// CancelThread is ConfirmThread for a session that ends: a thread that isn't in the session when it returns never will be.
func (s *Session) CancelThread(t Thread) error {
	if err := s.ConfirmThread(t); err != nil {
		return err
	}
	return s.k.grace(s.at.Ring, s.ring) // a program may be adopting it
}

// SelfTest calls expect, which must add the calling thread to a session, and verifies that the thread is confined: opening the canary
// works before and is denied after. The thread must be locked.
func SelfTest(expect func() error) error {
	if err := TryCanary(); err != nil {
		return fmt.Errorf("open %s before the session: %w", image.Canary, err)
	}
	if err := expect(); err != nil {
		return err
	}
	switch err := TryCanary(); {
	case err == nil:
		return errUnconfined
	case !errors.Is(err, unix.EACCES):
		return fmt.Errorf("open %s in the session: %w", image.Canary, err)
	}
	return nil
}

var errUnconfined = errors.New("the kernel doesn't confine this thread to the session: what the programs must deny was allowed " +
	"(\"bpf\" may be missing in the kernel's lsm= list)")

// TryCanary opens the canary, which every session is denied. ConfirmThread removes the denial.
func TryCanary() error {
	fd, err := unix.Open(image.Canary, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// cancel removes a thread from the pending ones.
func (k *Kernel) cancel(t Thread) error {
	return k.lock.with(func() error { return k.prunePending(t) })
}

// prunePending removes from the pending threads t, those of ended sessions, and those whose toolguard has died.
func (k *Kernel) prunePending(t Thread) error {
	drop, left := []uint64{t.key()}, false
	var key uint64
	var start kernelStart
	for it := k.pending.Iterate(); it.Next(&key, &start); {
		owned, err := k.lock.owned(int(start.Slot))
		if err != nil {
			return err
		}
		switch {
		case key == t.key():
		case owned && k.sessions[start.Slot].Id == start.Id:
			left = true
		default:
			drop = append(drop, key)
		}
	}
	for _, key := range drop {
		if err := k.pending.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
	}
	if !left {
		atomic.StoreUint32(k.starting, 0)
	}
	return nil
}
