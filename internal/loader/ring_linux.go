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

// ringSize is RING_SIZE of bpf/event.h, or a page where those are larger.
func ringSize() uint32 { return uint32(max(32<<10, os.Getpagesize())) }

func newRing() (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "ring", Type: ebpf.RingBuf, MaxEntries: ringSize()})
	if err != nil {
		return nil, fmt.Errorf("make a ring for events: %w", err)
	}
	return m, nil
}

// reader reads a ring. The kernel's pages are mapped: the reader's position, the writer's, and the data, once. (cilium/ebpf's
// own reader maps the data twice, which counts twice as memory of this process, for each session.)
type reader struct {
	file               *os.File
	consumer, producer []byte
	data               []byte
	record             []byte // one that goes over the end
}

func newReader(m *ebpf.Map) (_ *reader, err error) {
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // or os.File doesn't wait with the runtime's poller
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	r := &reader{file: os.NewFile(uintptr(fd), "ring")}
	page, size := os.Getpagesize(), int(m.MaxEntries())
	if r.consumer, err = unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		r.producer, err = unix.Mmap(fd, int64(page), page+size, unix.PROT_READ, unix.MAP_SHARED)
	}
	if err != nil {
		r.close()
		return nil, fmt.Errorf("map a ring: %w", err)
	}
	r.data = r.producer[page:]
	return r, nil
}

func (r *reader) close() {
	_ = r.file.Close()
	for _, mem := range [][]byte{r.consumer, r.producer} {
		if mem != nil {
			_ = unix.Munmap(mem)
		}
	}
}

func position(mem []byte) *uint64 { return (*uint64)(unsafe.Pointer(&mem[0])) }

// skip passes over everything that is there.
func (r *reader) skip() {
	atomic.StoreUint64(position(r.consumer), atomic.LoadUint64(position(r.producer)))
}

// What a record's length is marked with (BPF_RINGBUF_*_BIT, uapi/linux/bpf.h).
const (
	busyBit    = 1 << 31
	discardBit = 1 << 30
	headSize   = 8
)

// drain gives every record that is there to f, which may keep nothing of it.
func (r *reader) drain(f func([]byte)) {
	at := atomic.LoadUint64(position(r.consumer))
	for end := atomic.LoadUint64(position(r.producer)); at < end; end = atomic.LoadUint64(position(r.producer)) {
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&r.data[at%uint64(len(r.data))])))
		if head&busyBit != 0 {
			return
		}
		n := uint64(head &^ discardBit)
		if head&discardBit == 0 {
			f(r.at(at+headSize, n))
		}
		at += (headSize + n + 7) &^ 7
		atomic.StoreUint64(position(r.consumer), at)
	}
}

// at is the n bytes at a position, in one piece.
func (r *reader) at(at, n uint64) []byte {
	from := at % uint64(len(r.data))
	if from+n <= uint64(len(r.data)) {
		return r.data[from : from+n]
	}
	r.record = append(append(r.record[:0], r.data[from:]...), r.data[:from+n-uint64(len(r.data))]...)
	return r.record
}

// run drains the ring whenever something is there, until the reader is stopped.
func (r *reader) run(f func([]byte)) error {
	conn, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	err = conn.Read(func(uintptr) bool {
		r.drain(f)
		return false // wait
	})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}
