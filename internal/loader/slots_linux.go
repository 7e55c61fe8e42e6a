package loader

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/toolguard/toolguard/internal/loader/image"
	"golang.org/x/sys/unix"
)

const noRing = 0xffffffff // bpf/lib/session.h

// collect frees the slots of sessions that are over: none of their tasks lives, and nobody owns them.
func (k *Kernel) collect() error {
	for slot := range k.sessions {
		s := &k.sessions[slot]
		if s.Id == 0 || atomic.LoadUint32(&s.Tasks) != 0 {
			continue
		}
		owned, err := k.lock.owned(slot)
		if err != nil {
			return fmt.Errorf("look who owns a session: %w", err)
		}
		if !owned {
			free(s)
		}
	}
	return nil
}

// free gives a slot back. Nothing follows its image any more: the last of its tasks is counted out when it is no more than
// memory (security_task_free).
func free(s *kernelSession) {
	atomic.StoreUint64(&s.Id, 0)
	*s = kernelSession{}
}

// freeSlot finds a slot for a new owner. One whose session has just ended may be its former owner's for a moment.
func (k *Kernel) freeSlot(new *lock) (int, error) {
	for slot := range k.sessions {
		if k.sessions[slot].Id == 0 && new.own(slot) == nil {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("%d sessions run already, and the kernel's table has no more room: end some of them (toolguard sessions list)", len(k.sessions))
}

// extent is a run of lines.
type extent struct{ first, n uint32 }

// room finds lines that belong to no session.
func (k *Kernel) room(n uint32) (extent, error) {
	var used []extent
	for i := range k.sessions {
		if s := &k.sessions[i]; s.Id != 0 {
			used = append(used, extent{s.Image, s.Lines}, extent{s.FormerImage, s.FormerLines})
		}
	}
	slices.SortFunc(used, func(a, b extent) int { return cmp.Compare(a.first, b.first) })
	at := uint32(0)
	for _, u := range used {
		if u.n == 0 {
			continue
		}
		if u.first >= at && u.first-at >= n {
			break
		}
		at = max(at, u.first+u.n) // who was killed amid Reload has left the former image the same as the image
	}
	if n > image.MaxLines-at {
		return extent{}, errors.New("the policies of the sessions that run leave no room for this one in the kernel: end some of them (toolguard sessions list)")
	}
	return extent{at, n}, nil
}

// write puts an image where nobody reads yet.
func (k *Kernel) write(img *image.Image, at extent) error {
	page := os.Getpagesize()
	begin, size := int(at.first)*image.LineSize, len(img.Bytes())
	from := begin / page * page
	mem, err := unix.Mmap(k.images.FD(), int64(from), begin-from+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map the memory of the images: %w", err)
	}
	copy(mem[begin-from:], img.Bytes())
	return unix.Munmap(mem)
}

// freeRing finds a ring that no session has, and makes it where it's the first to be used.
func (k *Kernel) freeRing() (uint32, *ebpf.Map, error) {
	used := map[uint32]bool{}
	for i := range k.sessions {
		if s := &k.sessions[i]; s.Id != 0 {
			used[s.Ring] = true
		}
	}
	index := uint32(0)
	for used[index] {
		index++
	}
	var id ebpf.MapID
	switch err := k.rings.Lookup(index, &id); {
	case err == nil:
		m, err := ebpf.NewMapFromID(id)
		return index, m, err
	case !errors.Is(err, ebpf.ErrKeyNotExist):
		return 0, nil, err
	}
	m, err := newRing()
	if err != nil {
		return 0, nil, err
	}
	return index, m, k.rings.Put(index, m)
}

// grace returns when every program that was running has ended: that is what the kernel waits for before an update of a map
// of maps returns (maybe_wait_bpf_programs, kernel/bpf/syscall.c), so one that changes nothing will do.
func (k *Kernel) grace(ring uint32, m *ebpf.Map) error { return k.rings.Put(ring, m) }
