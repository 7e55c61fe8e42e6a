package loader

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Session is a session in the kernel. Its owner ends it; where that dies first, the session goes on as it is, until none of
// its tasks lives.
type Session struct {
	k    *Kernel
	id   uint64
	lock *lock // with which its slot is owned
	slot int
	at   *kernelSession

	ring   *ebpf.Map
	events *reader
	tell   func([]byte)
	heard  chan error // nil: nobody listens
}

// Flags are what a policy can allow that is no rule.
type Flags uint32

// Namespaces allows new user namespaces.
const Namespaces Flags = 1

// Begin makes a session: all that decides about it is in the kernel when it returns, and nobody is in it yet. id is never used
// twice.
func (k *Kernel) Begin(id uint64, img *Image, flags Flags) (*Session, error) {
	ns, err := mountNamespace()
	if err != nil {
		return nil, err
	}
	own, err := openLock(version) // as another holder than those of the other sessions
	if err != nil {
		return nil, err
	}
	s := &Session{k: k, id: id, lock: own}
	err = k.lock.hold(func() error {
		if err := k.collect(); err != nil {
			return err
		}
		return s.begin(kernelSession{Flags: uint32(flags), MountNs: ns}, img)
	})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("make the session in the kernel: %w", err)
	}
	return s, nil
}

// close lets go of what a session has open. Nobody owns its slot any more.
func (s *Session) close() {
	s.lock.close()
	if s.events != nil {
		s.events.close()
	}
	if s.ring != nil {
		_ = s.ring.Close()
	}
}

func (s *Session) begin(new kernelSession, img *Image) (err error) {
	if s.slot, err = s.k.freeSlot(); err != nil {
		return err
	}
	if err := s.lock.own(s.slot); err != nil {
		return err
	}
	if new.Ring, s.ring, err = s.k.freeRing(); err != nil {
		return err
	}
	if s.events, err = newReader(s.ring); err != nil {
		return err
	}
	s.events.skip()
	at, err := s.k.room(uint32(img.Lines()))
	if err != nil {
		return err
	}
	if err := s.k.write(img, at); err != nil {
		return err
	}
	new.Image, new.Lines = at.first, at.n
	s.at = &s.k.sessions[s.slot]
	*s.at = new
	atomic.StoreUint64(&s.at.Id, s.id) // last: a program knows the session by it
	return nil
}

// mountNamespace is the number of the namespace that this process sees files in, as its policy does.
func mountNamespace() (uint32, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/self/ns/mnt", &st); err != nil {
		return 0, os.NewSyscallError("stat /proc/self/ns/mnt", err)
	}
	return uint32(st.Ino), nil
}

// Adopt puts the calling thread into the session, for good, and proves that it's in: it's refused what it could do before.
// The thread must be locked, and have been shown to be able to.
func (s *Session) Adopt() error {
	if err := tryCanary(); err != nil {
		return fmt.Errorf("open %s before the session: %w", Canary, err)
	}
	key := uint64(os.Getpid())<<32 | uint64(unix.Gettid())
	err := s.k.lock.hold(func() error {
		atomic.StoreUint32(s.k.starting, 1)
		return s.k.pending.Put(key, kernelStart{Id: s.id, Slot: uint32(s.slot)})
	})
	if err != nil {
		return err
	}
	canary := tryCanary()
	forgotten := make(chan error)
	go func() { forgotten <- s.k.forget(key) }() // on another thread: this one is guarded
	if err := <-forgotten; err != nil {
		return err
	}
	switch {
	case canary == nil:
		return errUnguarded
	case !errors.Is(canary, unix.EACCES):
		return fmt.Errorf("open %s in the session: %w", Canary, canary)
	}
	s.unsay()
	return nil
}

// unsay forgets the canary's refusal. Nobody else is in the session yet.
func (s *Session) unsay() {
	s.events.skip()
	for _, n := range []*uint64{&s.at.Sequence, &s.at.Denied, &s.at.Suppressed, &s.at.Lost, &s.at.Told} {
		atomic.StoreUint64(n, 0)
	}
}

var errUnguarded = errors.New("the kernel doesn't hold this thread to the session: what the programs must refuse was allowed " +
	"(inside a PID namespace, as in a container, they don't know it by its number; else \"bpf\" may be missing in the kernel's lsm= list)")

func tryCanary() error {
	fd, err := unix.Open(Canary, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// forget takes a thread out of those that are to be adopted, if it's still there, and those whose toolguard has died.
func (k *Kernel) forget(thread uint64) error {
	return k.lock.hold(func() error {
		if err := k.pending.Delete(thread); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		var key uint64
		var start kernelStart
		left := false
		for it := k.pending.Iterate(); it.Next(&key, &start); {
			owned, err := k.lock.owned(int(start.Slot))
			if err != nil {
				return err
			}
			if left = left || owned; !owned {
				_ = k.pending.Delete(key)
			}
		}
		if !left {
			atomic.StoreUint32(k.starting, 0)
		}
		return nil
	})
}

// Reload gives the session another image, with one write. What runs in it is held to the one or the other, never to both.
func (s *Session) Reload(img *Image) error {
	return s.k.lock.hold(func() error {
		if s.at.FormerLines != 0 { // of a reload that was cut short
			if err := s.retire(); err != nil {
				return err
			}
		}
		at, err := s.k.room(uint32(img.Lines()))
		if err != nil {
			return err
		}
		if err := s.k.write(img, at); err != nil {
			return err
		}
		setExtent(&s.at.FormerImage, extent{s.at.Image, s.at.Lines})
		setExtent(&s.at.Image, at)
		return s.retire()
	})
}

// retire frees the former image when nothing follows it any more.
func (s *Session) retire() error {
	if err := s.k.grace(s.at.Ring, s.ring); err != nil {
		return fmt.Errorf("wait for the programs that run: %w", err)
	}
	setExtent(&s.at.FormerImage, extent{})
	return nil
}

// setExtent writes the two words of an extent in a session at once, so that nothing ever sees half of it.
func setExtent(first *uint32, e extent) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(first)), uint64(e.first)|uint64(e.n)<<32) // all that toolguard runs on is little-endian
}

// Counts are what the kernel counted in a session.
type Counts struct {
	Tasks      int
	Sequence   uint64 // of the last event
	Denied     uint64 // everything
	Suppressed uint64 // refused and not told: too many in one second
	Lost       uint64 // refused and not told: no room
}

// Counts reads them.
func (s *Session) Counts() Counts {
	return Counts{
		Tasks: int(int32(atomic.LoadUint32(&s.at.Tasks))), Sequence: atomic.LoadUint64(&s.at.Sequence),
		Denied: atomic.LoadUint64(&s.at.Denied), Suppressed: atomic.LoadUint64(&s.at.Suppressed), Lost: atomic.LoadUint64(&s.at.Lost),
	}
}

// End gives the session up: what is left of it stays guarded, and its slot is free when nothing is. What happened before is
// told before it returns, and counted.
func (s *Session) End() (Counts, error) {
	var counts Counts
	err := s.k.lock.hold(func() error {
		atomic.StoreUint32(&s.at.Ring, noRing)
		counts = s.Counts()
		if counts.Tasks == 0 {
			free(s.at)
		}
		return nil
	})
	err = errors.Join(err, s.finish())
	s.close()
	return counts, err
}
