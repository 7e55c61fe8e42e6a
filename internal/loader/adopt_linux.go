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

// ExpectThread has the kernel put a thread into the session, for good, at the very next thing that it does. The thread must have
// no_new_privs, and be in no session until then or, where from isn't 0, in that one: whose policy the new session's has in it.
func (s *Session) ExpectThread(t Thread, from uint64) error {
	return s.k.lock.hold(func() error {
		atomic.StoreUint32(s.k.starting, 1)
		return s.k.pending.Put(t.key(), kernelStart{Id: s.id, From: from, Slot: uint32(s.slot)})
	})
}

// ConfirmThread ends what ExpectThread began, whether the thread is in the session or not, and forgets that it was denied its proof. That is all
// it forgets: by now the thread, and whom it has started, may have tried what they like.
func (s *Session) ConfirmThread(t Thread) error {
	if err := s.k.forget(t); err != nil {
		return err
	}
	return s.events.read(func(p *pages) {
		p.drainWhile(func(record []byte) bool {
			id, ev, err := decode(record, time.Time{})
			if err != nil || id != s.id { // of a session that had this ring before
				return true
			}
			proof := ev.TID == t.ID && ev.Op == OpOpen && len(ev.Paths) == 1 && ev.Paths[0].Path == image.Canary
			if proof {
				atomic.AddUint64(&s.at.Denied, ^uint64(0)) // one less: the kernel goes on counting
				atomic.CompareAndSwapUint64(&s.at.Sequence, ev.Sequence, ev.Sequence-1)
			}
			return proof
		})
	})
}

// CancelThread is ConfirmThread for a session that ends: who isn't in it when that returns never will be.
func (s *Session) CancelThread(t Thread) error {
	if err := s.ConfirmThread(t); err != nil {
		return err
	}
	return s.k.grace(s.at.Ring, s.ring) // a program may be adopting it
}

// SelfTest has expect see to it that the calling thread is put into a session, and proves that it's in: it's denied what it could
// do before. The thread must be locked.
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

// TryCanary opens what no session may. ConfirmThread forgets that it was denied.
func TryCanary() error {
	fd, err := unix.Open(image.Canary, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// forget takes a thread out of those that are to be adopted, if it's still there.
func (k *Kernel) forget(t Thread) error {
	return k.lock.hold(func() error { return k.prune(t) })
}

// prune takes out of the threads that are to be adopted one, those whose session is over, and those whose toolguard has died.
func (k *Kernel) prune(t Thread) error {
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
