package loader

import (
	"errors"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/loader/image"
	"github.com/toolguard/toolguard/internal/policy"
)

const maxPaths = 2 * (4096 + 256)

var errRecord = errors.New("a record in the kernel's ring isn't an event")

// decode reads a record. booted is when the machine's clock of times since boot began.
func decode(record []byte, booted time.Time) (id uint64, ev Event, err error) {
	const head = int(unsafe.Sizeof(kernelEvent{}))
	if len(record) < head {
		return 0, ev, errRecord
	}
	var k kernelEvent
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&k)), head), record)
	text := record[head:]
	if uint64(k.First)+uint64(k.Second) > uint64(len(text)) {
		return 0, ev, errRecord
	}
	first, second := string(text[:k.First]), string(text[k.First:k.First+k.Second])
	ev = Event{
		Time: booted.Add(time.Duration(k.Time)), Sequence: k.Sequence, Generation: k.Generation,
		PID: int(k.Pid), TID: int(k.Tid), UID: int(k.Uid), Start: booted.Add(time.Duration(k.Start)), Comm: comm(k.Comm[:]), Other: int(k.Other),
		Parent: Parent{int(k.Parent), int(k.ParentUid), comm(k.ParentComm[:])}, Op: Op(k.Op), Why: Why(k.Why), Errno: int(k.Error), Detail: k.Detail, Walk: Walk(k.Status),
		Layer: int(int32(k.Layer)), Rule: image.Rule(k.Hit), Cut: len(first)+len(second) >= maxPaths,
	}
	if first != "" {
		ev.Paths = append(ev.Paths, Asked{first, policy.Caps(k.Need), policy.Caps(k.Caps)})
	}
	switch {
	case ev.Op == OpExec:
		ev.Asked, ev.Args, _ = strings.Cut(second, "\x00")
	case ev.Why == WhyArgs:
		ev.Args = second
	case second != "":
		ev.Paths = append(ev.Paths, Asked{second, policy.Caps(k.Need2), policy.Caps(k.Caps2)})
	}
	return k.Session, ev, nil
}

func comm(c []int8) string {
	return unix.ByteSliceToString(unsafe.Slice((*byte)(unsafe.Pointer(&c[0])), len(c)))
}

// booted is when the clock began that the kernel's times since boot count from.
func booted() time.Time {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // doesn't fail
	return time.Now().Add(-time.Duration(ts.Nano()))
}
