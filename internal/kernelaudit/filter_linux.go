package kernelaudit

import (
	"encoding/binary"
	"os"

	"golang.org/x/sys/unix"
)

// wantedTypes are the record types that are read.
var wantedTypes = []uint16{typeLogin, typeTrustedApp, typeSyscall, typeConfigChange, typeSeccomp, typeLandlockAccess, typeLandlockDomain}

// attachFilter makes the kernel discard all other records, which are half of those that it writes for a denial.
func attachFilter(fd int) error {
	const kindAt = 4 // in struct nlmsghdr
	prog := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_H | unix.BPF_ABS, K: kindAt}}
	for i, kind := range wantedTypes {
		// Loads are in network order, netlink's numbers aren't. A match jumps over the other comparisons and the first return.
		n := binary.BigEndian.Uint16(binary.NativeEndian.AppendUint16(nil, kind))
		prog = append(prog, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: uint32(n), Jt: uint8(len(wantedTypes) - i)})
	}
	const none, all = 0, 1<<32 - 1
	prog = append(prog, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: none}, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: all})
	err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(prog)), Filter: &prog[0]})
	return os.NewSyscallError("setsockopt(SO_ATTACH_FILTER)", err)
}
