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

// Session is a session in the kernel. Its owner ends it. If the owner dies first, the session stays enforced until its last task exits.
type Session struct {
	k    *Kernel
	id   uint64
	lock *lock // which owns its slot
	slot int
	at   *kernelSession

	ring    *ebpf.Map
	events  *reader
	emit    func([]byte)
	reading chan error // nil: no listener
}

// Begin makes a session. When it returns, the whole policy is in the kernel and the session has no task yet. id is never used twice.
func (k *Kernel) Begin(id uint64, img *image.Image, flags Flags) (*Session, error) {
	ns, err := MountNamespace("self")
	if err != nil {
		return nil, err
	}
	return k.BeginFor(Client{MountNamespace: ns, User: uint32(os.Getuid())}, id, img, flags)
}

// Client is the process that a session is made for.
type Client struct {
	MountNamespace uint32 // the one that the policy was compiled for
	User           uint32 // the uid whose limits the session counts for
}

// BeginFor is Begin on behalf of a client.
func (k *Kernel) BeginFor(c Client, id uint64, img *image.Image, flags Flags) (*Session, error) {
	own, err := openLock(version) // a separate owner of locks for each session
	if err != nil {
		return nil, err
	}
	s := &Session{k: k, id: id, lock: own}
	err = k.lock.with(func() error {
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

// close closes a session's descriptors and so releases its slot.
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
	at, err := s.k.freeLines(uint32(img.Lines()))
	if err != nil {
		return err
	}
	if err := s.k.write(img, at); err != nil {
		return err
	}
	new.Image, new.Lines = at.first, at.n
	s.at = &s.k.sessions[s.slot]
	*s.at = new
	atomic.StoreUint64(&s.at.Id, s.id) // last, as it makes the session valid for the programs
	return nil
}

// MountNamespace returns the inode number of a process's mount namespace.
func MountNamespace(process string) (uint32, error) {
	var st unix.Stat_t
	if err := unix.Stat("/proc/"+process+"/ns/mnt", &st); err != nil {
		return 0, os.NewSyscallError("stat a mount namespace", err)
	}
	return uint32(st.Ino), nil
}

// Adopt adds the calling thread to the session and verifies that it's confined. It can't leave the session again. The thread must be locked
// and have no_new_privs.
func (s *Session) Adopt() error {
	thread := Thread{os.Getpid(), unix.Gettid()}
	err := SelfTest(func() error { return s.ExpectThread(thread, 0) })
	settled := make(chan error)
	go func() { settled <- s.ConfirmThread(thread) }() // on another thread: this one is confined
	return errors.Join(err, <-settled)
}

// Reload replaces the session's image with one write. Each decision is by the old image or by the new one, never by both. The space of the
// former image is reused only after the next reload: running programs may still read it.
func (s *Session) Reload(img *image.Image) error {
	return s.k.lock.with(func() error {
		if err := s.k.collect(); err != nil {
			return err
		}
		if s.at.FormerLines != 0 {
			if err := s.k.grace(s.at.Ring, s.ring); err != nil {
				return fmt.Errorf("wait for running programs: %w", err)
			}
			setExtent(&s.at.FormerImage, extent{})
		}
		at, err := s.k.freeLines(uint32(img.Lines()))
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

// Generation returns the generation of the image in force.
func (s *Session) Generation() (uint32, error) {
	var head [image.LineSize]byte
	if err := s.k.images.Lookup(s.at.Image, &head); err != nil {
		return 0, fmt.Errorf("read the image in force: %w", err)
	}
	return image.Generation(head[:]), nil
}

// setExtent writes the two words of a session's extent at once, so that no program reads one old and one new word.
func setExtent(first *uint32, e extent) {
	atomic.StoreUint64((*uint64)(unsafe.Pointer(first)), uint64(e.first)|uint64(e.n)<<32) // toolguard runs on little-endian machines only
}

// Counts are the kernel's counts of a session.
type Counts struct {
	Tasks      int    // whose memory the kernel hasn't freed
	Living     int    // tasks that haven't exited: the others execute nothing any more
	Sequence   uint64 // of the last event
	Denied     uint64 // all denials
	Suppressed uint64 // denied and not reported: too many in one second
	Lost       uint64 // denied and not reported: no space
	Unrecorded uint64 // executed programs that should have been reported and weren't
}

// Counts reads the kernel's counts. They are zero after the session has ended, since another one may have its slot.
func (s *Session) Counts() Counts {
	c := Counts{
		Tasks: int(int32(atomic.LoadUint32(&s.at.Tasks))), Living: int(int32(atomic.LoadUint32(&s.at.Living))), Sequence: atomic.LoadUint64(&s.at.Sequence),
		Denied: atomic.LoadUint64(&s.at.Denied), Suppressed: atomic.LoadUint64(&s.at.Suppressed), Lost: atomic.LoadUint64(&s.at.Lost),
		Unrecorded: atomic.LoadUint64(&s.at.Unrecorded),
	}
	if atomic.LoadUint64(&s.at.Id) != s.id { // after the counts: the slot may be reused, the id never
		return Counts{}
	}
	return c
}

// End releases the session. Its remaining tasks stay confined; its slot is free when none remains. All earlier events are reported and
// counted when it returns.
func (s *Session) End() (Counts, error) {
	var counts Counts
	var rest [][]byte
	err := s.unlisten()
	err = errors.Join(err, s.k.lock.with(func() (err error) {
		rest, err = s.releaseRing()
		counts = s.Counts()
		if counts.Tasks == 0 {
			free(s.at)
		}
		if atomic.LoadUint32(s.k.starting) == 0 {
			return err
		}
		return errors.Join(err, s.k.prunePending(Thread{})) // pending threads that were never adopted
	}))
	for _, record := range rest { // without the lock: the listener may be slow
		s.emit(record)
	}
	s.close()
	return counts, err
}
