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

// collect frees the slots of ended sessions: without an owner and without a task.
func (k *Kernel) collect() error {
	for slot := range k.sessions {
		s := &k.sessions[slot]
		if s.Id == 0 || atomic.LoadUint32(&s.Tasks) != 0 {
			continue
		}
		owned, err := k.lock.owned(slot)
		if err != nil {
			return fmt.Errorf("check the lock of a session's slot: %w", err)
		}
		if !owned {
			free(s)
		}
	}
	return nil
}

// free frees a slot. No program reads its image any more: a task is counted until its memory is freed (security_task_free).
func free(s *kernelSession) {
	atomic.StoreUint64(&s.Id, 0)
	*s = kernelSession{}
}

// freeSlot returns a free slot, locked for its new owner. The slot of a session that has just ended may still be locked for a moment.
func (k *Kernel) freeSlot(new *lock) (int, error) {
	for slot := range k.sessions {
		if k.sessions[slot].Id == 0 && new.own(slot) == nil {
			return slot, nil
		}
	}
	return 0, fmt.Errorf("%d sessions run already, and the kernel's table is full: end some of them (toolguard sessions list)", len(k.sessions))
}

// extent is a run of lines.
type extent struct{ first, n uint32 }

// freeLines returns n lines that no session uses.
func (k *Kernel) freeLines(n uint32) (extent, error) {
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
		at = max(at, u.first+u.n) // a process killed during Reload left the former image equal to the image
	}
	if n > image.MaxLines-at {
		return extent{}, errors.New("the policies of the running sessions leave no space for this one in the kernel: end some of them (toolguard sessions list)")
	}
	return extent{at, n}, nil
}

// write writes an image to lines that no program reads yet.
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

// freeRing returns a ring that no session uses. It makes one if there is none.
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

// grace returns when all programs that were running have ended. The kernel waits for that in an update of a map of maps
// (maybe_wait_bpf_programs, kernel/bpf/syscall.c), so grace updates an element with its own value.
func (k *Kernel) grace(ring uint32, m *ebpf.Map) error { return k.rings.Put(ring, m) }
