package loader

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/toolguard/toolguard/internal/loader/image"
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

	ring    *ebpf.Map
	events  *reader
	emit    func([]byte)
	reading chan error // nil: nobody listens
}

// Begin makes a session: all that decides about it is in the kernel when it returns, and nobody is in it yet. id is never used
// twice.
func (k *Kernel) Begin(id uint64, img *image.Image, flags Flags) (*Session, error) {
	ns, err := MountNamespace("self")
	if err != nil {
		return nil, err
	}
	return k.BeginFor(Client{MountNamespace: ns, User: uint32(os.Getuid())}, id, img, flags)
}

// Client is whom a session is made for.
type Client struct {
	MountNamespace uint32 // in which the policy was compiled
	User           uint32 // whose share the session's is
}

// BeginFor is Begin for somebody else.
func (k *Kernel) BeginFor(c Client, id uint64, img *image.Image, flags Flags) (*Session, error) {
	own, err := openLock(version) // as another holder than those of the other sessions
	if err != nil {
		return nil, err
	}
	s := &Session{k: k, id: id, lock: own}
	err = k.lock.hold(func() error {
		if err := k.collect(); err != nil {
			return err
		}
		return s.begin(kernelSession{Flags: uint32(flags), MountNs: c.MountNamespace, User: c.User}, img)
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

func (s *Session) begin(new kernelSession, img *image.Image) (err error) {
	if s.slot, err = s.k.freeSlot(s.lock); err != nil {
		return err
	}
	if new.Ring, s.ring, err = s.k.freeRing(); err != nil {
		return err
	}
	if s.events, err = newReader(s.ring); err != nil {
		return err
	}
	if err := s.events.read((*pages).skip); err != nil {
		return err
	}
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

// MountNamespace is the number of the namespace that a process sees files in.
func MountNamespace(process string) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+process+"/ns/mnt", &st); err != nil {
		return 0, os.NewSyscallError("stat a mount namespace", err)
	}
	return uint32(st.Ino), nil
}

// Adopt puts the calling thread into the session, for good, and proves that it's in. The thread must be locked, and have
// no_new_privs, without which none gets into a session.
func (s *Session) Adopt() error {
	thread := Thread{os.Getpid(), unix.Gettid()}
	err := SelfTest(func() error { return s.ExpectThread(thread, 0) })
	settled := make(chan error)
	go func() { settled <- s.ConfirmThread(thread) }() // on another thread: this one is confined
	return errors.Join(err, <-settled)
}

// Reload gives the session another image, with one write. What runs in it is held to the one or the other, never to both. The
// former image keeps its room until the next reload: programs that run may be following it still.
func (s *Session) Reload(img *image.Image) error {
	return s.k.lock.hold(func() error {
		if err := s.k.collect(); err != nil {
			return err
		}
		if s.at.FormerLines != 0 {
			if err := s.k.grace(s.at.Ring, s.ring); err != nil {
				return fmt.Errorf("wait for the programs that run: %w", err)
			}
			setExtent(&s.at.FormerImage, extent{})
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
		return nil
	})
}

// Generation is that of the image in force.
func (s *Session) Generation() (uint32, error) {
	var head [image.LineSize]byte
	if err := s.k.images.Lookup(s.at.Image, &head); err != nil {
		return 0, fmt.Errorf("look at the image in force: %w", err)
	}
	return image.Generation(head[:]), nil
}

// setExtent writes the two words of an extent in a session at once, so that nothing ever sees half of it.
func setExtent(first *uint32, e extent) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(first)), uint64(e.first)|uint64(e.n)<<32) // all that toolguard runs on is little-endian
}

// Counts are what the kernel counted in a session.
type Counts struct {
	Tasks      int    // that keep its place in the kernel
	Living     int    // of them, those that haven't exited: the others do nothing any more
	Sequence   uint64 // of the last event
	Denied     uint64 // everything
	Suppressed uint64 // denied and not reported: too many in one second
	Lost       uint64 // denied and not reported: no space
	Unrecorded uint64 // executed and not reported, though it was to be
}

// Counts reads them. There are none when the session is over: its slot may be another one's.
func (s *Session) Counts() Counts {
	c := Counts{
		Tasks: int(int32(atomic.LoadUint32(&s.at.Tasks))), Living: int(int32(atomic.LoadUint32(&s.at.Living))), Sequence: atomic.LoadUint64(&s.at.Sequence),
		Denied: atomic.LoadUint64(&s.at.Denied), Suppressed: atomic.LoadUint64(&s.at.Suppressed), Lost: atomic.LoadUint64(&s.at.Lost),
		Unrecorded: atomic.LoadUint64(&s.at.Unrecorded),
	}
	if atomic.LoadUint64(&s.at.Id) != s.id { // after the others: no session gets its slot back
		return Counts{}
	}
	return c
}

// End gives the session up: what is left of it stays confined, and its slot is free when nothing is. What happened before is
// reported before it returns, and counted.
func (s *Session) End() (Counts, error) {
	var counts Counts
	var rest [][]byte
	err := s.unlisten()
	err = errors.Join(err, s.k.lock.hold(func() (err error) {
		rest, err = s.giveRing()
		counts = s.Counts()
		if counts.Tasks == 0 {
			free(s.at)
		}
		if atomic.LoadUint32(s.k.starting) == 0 {
			return err
		}
		return errors.Join(err, s.k.prune(Thread{})) // whoever was to come into it never came
	}))
	for _, record := range rest { // without the lock: what takes them may be slow
		s.emit(record)
	}
	s.close()
	return counts, err
}
