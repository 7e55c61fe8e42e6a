package loader

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/seccomp"
)

// The socket options that the seccomp filter denies in a restricted network are denied by every way to set them.
func TestSocketOptions(t *testing.T) {
	k := kernel(t)
	restricted, c := beginWith(t, k, Sockets|flagIOUring)
	free, _ := beginWith(t, k, Sockets|flagIOUring|flagNetFree)
	ttl := [2]uint32{unix.IPPROTO_IP, unix.IP_TTL}
	var h *collected
	var want []string
	for s, name := range map[*Session]string{nil: "outside", restricted: "restricted", free: "free"} {
		err := as(s, func() error {
			if s == restricted {
				h = listen(s)
			}
			for _, o := range append(slices.Clone(seccomp.SocketOptions), ttl) {
				denied := s == restricted && o != ttl
				for way, set := range map[string]func(fd int, o [2]uint32) error{"setsockopt": set, "io_uring": setByRing} {
					err := setOn(o, set)
					if way == "io_uring" && errors.Is(err, unix.EOPNOTSUPP) && os.Getenv("TOOLGUARD_VM") == "6.1" { // since Linux 6.7
						continue
					}
					if errors.Is(err, unix.EACCES) != denied {
						t.Errorf("%s: option %d by %s: %v", name, o, way, err)
					}
					if denied {
						want = append(want, fmt.Sprintf("option net: no rule %d", o[0]|o[1]<<16))
					}
					if o == ttl && err != nil {
						t.Errorf("%s: an allowed one, by %s: %v", name, way, err)
					}
				}
			}
			return nil
		})
		must(t, err)
	}
	end(t, restricted, free)
	var reported []string
	for i, line := range h.lines(c) {
		_, line, _ = strings.Cut(line, " ")
		reported = append(reported, fmt.Sprintf("%s %d", line, h.events[i].Detail))
	}
	if !slices.Equal(reported, want) {
		t.Errorf("reported %q, want %q", reported, want)
	}
}

// setOn sets an option of a new socket.
func setOn(o [2]uint32, set func(fd int, o [2]uint32) error) error {
	family := unix.AF_INET
	if o[0] == unix.IPPROTO_IPV6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return set(fd, o)
}

func set(fd int, o [2]uint32) error { return unix.SetsockoptInt(fd, int(o[0]), int(o[1]), 1) }

// setByRing sets it by io_uring: IORING_OP_URING_CMD with SOCKET_URING_OP_SETSOCKOPT.
func setByRing(fd int, o [2]uint32) error {
	var params [120]byte // struct io_uring_params
	ring, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if e != 0 {
		return fmt.Errorf("io_uring_setup: %w", e)
	}
	defer unix.Close(int(ring))
	at := func(i int) int { return int(binary.NativeEndian.Uint32(params[i:])) }
	const offRings, offEntries, inSQ, inCQ = 0, 0x10000000, 40, 80 // sq_off and cq_off: head, tail, …
	rings, err := unix.Mmap(int(ring), offRings, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map the rings: %w", err)
	}
	defer func() { _ = unix.Munmap(rings) }()
	entry, err := unix.Mmap(int(ring), offEntries, 128, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map the entries: %w", err)
	}
	defer func() { _ = unix.Munmap(entry) }()
	entry[0] = 46 // IORING_OP_URING_CMD
	for i, word := range map[int]uint32{4: uint32(fd), 8: 3 /* SOCKET_URING_OP_SETSOCKOPT */, 16: o[0], 20: o[1], 44: 4, 64: 1} {
		binary.NativeEndian.PutUint32(entry[i:], word)
	}
	binary.NativeEndian.PutUint64(entry[48:], uint64(uintptr(unsafe.Pointer(&entry[64])))) // the value, behind the entry
	binary.NativeEndian.PutUint32(rings[at(inSQ+24):], 0)                                  // array: the first entry
	binary.NativeEndian.PutUint32(rings[at(inSQ+4):], 1)                                   // tail
	if _, _, e := unix.Syscall6(unix.SYS_IO_URING_ENTER, ring, 1, 1, 1 /* IORING_ENTER_GETEVENTS */, 0, 0); e != 0 {
		return fmt.Errorf("io_uring_enter: %w", e)
	}
	if got := int32(binary.NativeEndian.Uint32(rings[at(inCQ+20)+8:])); got < 0 { // the first event's result
		return unix.Errno(-got)
	}
	return nil
}
