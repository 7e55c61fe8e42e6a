package loader

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// ringSize is RING_SIZE of bpf/lib/report.h, or the size of a page if that's larger.
func ringSize() uint32 { return uint32(max(32<<10, os.Getpagesize())) }

func newRing() (*ebpf.Map, error) {
	m, err := ebpf.NewMap(&ebpf.MapSpec{Name: "ring", Type: ebpf.RingBuf, MaxEntries: ringSize()})
	if err != nil {
		return nil, fmt.Errorf("make a ring for events: %w", err)
	}
	return m, nil
}

// reader reads a ring. It maps the kernel's pages only while it reads: every session has a ring, most rings are empty, and mapped pages
// count as this process's memory. (cilium/ebpf's own reader keeps them mapped, the data twice.)
type reader struct {
	file *os.File
	size int
}

// pages are a ring's pages: the reader's position, the writer's, and the data, once.
type pages struct {
	consumer, producer []byte
	data               []byte
	record             []byte // a record that wraps around the end
}

func newReader(m *ebpf.Map) (*reader, error) {
	fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that os.File waits with the runtime's poller
		_ = unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &reader{os.NewFile(uintptr(fd), "ring"), int(m.MaxEntries())}, nil
}

func (r *reader) close() { _ = r.file.Close() }

// read maps the ring for f.
func (r *reader) read(f func(*pages)) error {
	conn, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = r.readAt(int(fd), f) }); err != nil {
		return err
	}
	return failed
}

func (r *reader) readAt(fd int, f func(*pages)) error {
	page := os.Getpagesize()
	consumer, err := unix.Mmap(fd, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return fmt.Errorf("map a ring: %w", err)
	}
	producer, err := unix.Mmap(fd, int64(page), page+r.size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return errors.Join(fmt.Errorf("map a ring: %w", err), unix.Munmap(consumer))
	}
	f(&pages{consumer: consumer, producer: producer, data: producer[page:]})
	return errors.Join(unix.Munmap(consumer), unix.Munmap(producer))
}

func position(mem []byte) *uint64 { return (*uint64)(unsafe.Pointer(&mem[0])) }

// skip skips all records.
func (p *pages) skip() {
	atomic.StoreUint64(position(p.consumer), atomic.LoadUint64(position(p.producer)))
}

// Flags in a record's length (BPF_RINGBUF_*_BIT, uapi/linux/bpf.h).
const (
	busyBit    = 1 << 31
	discardBit = 1 << 30
	headSize   = 8
)

// drain calls f with every record. The record is valid during the call only.
func (p *pages) drain(f func([]byte)) {
	p.drainWhile(func(record []byte) bool {
		f(record)
		return true
	})
}

// drainWhile is drain until f returns false: that record and all later ones stay.
func (p *pages) drainWhile(f func([]byte) bool) {
	at := atomic.LoadUint64(position(p.consumer))
	for end := atomic.LoadUint64(position(p.producer)); at < end; end = atomic.LoadUint64(position(p.producer)) {
		head := atomic.LoadUint32((*uint32)(unsafe.Pointer(&p.data[at%uint64(len(p.data))])))
		if head&busyBit != 0 {
			return
		}
		n := uint64(head &^ discardBit)
		if head&discardBit == 0 && !f(p.at(at+headSize, n)) {
			return
		}
		at += (headSize + n + 7) &^ 7
		atomic.StoreUint64(position(p.consumer), at)
	}
}

// at returns the n bytes at a position, contiguously.
func (p *pages) at(at, n uint64) []byte {
	from := at % uint64(len(p.data))
	if from+n <= uint64(len(p.data)) {
		return p.data[from : from+n]
	}
	p.record = append(append(p.record[:0], p.data[from:]...), p.data[:from+n-uint64(len(p.data))]...)
	return p.record
}

// unmapped is the time until the next attempt to map a ring.
const unmapped = 100 * time.Millisecond

// run drains the ring whenever it has records, until the reader is stopped. If it can't map the ring, for lack of memory, it retries: the
// kernel counts the events that don't fit meanwhile.
func (r *reader) run(f func([]byte)) error {
	conn, err := r.file.SyscallConn()
	if err != nil {
		return err
	}
	for {
		err := conn.Read(func(fd uintptr) bool {
			return r.readAt(int(fd), func(p *pages) { p.drain(f) }) != nil // or wait
		})
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil
		} else if err != nil {
			return err
		}
		time.Sleep(unmapped)
	}
}
