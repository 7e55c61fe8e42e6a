package cgroupsock

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// events is a running Listen.
type events struct {
	ring *ringbuf.Reader
	done chan error
}

var errRecord = errors.New("a record in the kernel's ring isn't an event")

// Listen calls f with every event from now on, from one goroutine, until the session's End. It may be called once.
func (s *Session) Listen(f func(Event)) error {
	ring, err := ringbuf.NewReader(s.maps[netMapEvents])
	if err != nil {
		return fmt.Errorf("open the ring of network events: %w", err)
	}
	s.events = &events{ring, make(chan error, 1)}
	go func() { s.events.done <- readEvents(ring, f) }()
	return nil
}

func readEvents(ring *ringbuf.Reader, f func(Event)) error {
	var record ringbuf.Record
	for {
		switch err := ring.ReadInto(&record); {
		case errors.Is(err, ringbuf.ErrFlushed):
			return nil
		case err != nil:
			return fmt.Errorf("read a network event: %w", err)
		}
		e, err := decode(record.RawSample)
		if err != nil {
			return err
		}
		f(e)
	}
}

// finish drains the ring.
func (s *Session) finish() error {
	if s.events == nil {
		return nil
	}
	err := s.events.ring.Flush()
	if err == nil {
		err = <-s.events.done
	}
	return errors.Join(err, s.events.ring.Close())
}

func decode(record []byte) (Event, error) {
	if len(record) < int(unsafe.Sizeof(netEvent{})) {
		return Event{}, errRecord
	}
	var k netEvent
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&k)), unsafe.Sizeof(k)), record)
	return Event{
		Time: time.Now().Add(time.Duration(k.Time) - sinceBoot()), Session: k.Session, Sequence: k.Sequence,
		PID: int(k.Pid), TID: int(k.Tid), UID: int(k.Uid), SeenAt: time.Duration(k.Since), Comm: comm(&k.Comm),
		Op: Op(k.Op), Why: Why(k.Why), At: addrPort(k.At.Addr, uint16(k.At.Port)), Protocol: int(k.Protocol), Kind: int(k.Kind),
		Layer: int(k.Layer), Rule: int(k.Rule), Generation: k.Generation,
	}, nil
}

// sinceBoot is the clock that the programs read (bpf_ktime_get_boot_ns).
func sinceBoot() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // doesn't fail
	return time.Duration(ts.Nano())
}
