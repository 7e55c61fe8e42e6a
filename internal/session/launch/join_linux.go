package launch

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// joinCgroup returns the system calls by which the command waits until toolguardd has moved it into the session's cgroup: it sends a byte, by
// which the kernel identifies it to toolguardd, and receives one. Without an answer it isn't executed.
func joinCgroup(f *os.File) []forkexec.Call {
	b := new([1]byte)
	send := forkexec.Call{
		Nr: unix.SYS_SENDTO, Args: [5]uintptr{f.Fd(), 0, 1, unix.MSG_NOSIGNAL}, Pointers: [5]unsafe.Pointer{1: unsafe.Pointer(b)}, Want: 1,
	}
	receive := send
	receive.Nr, receive.Args[3] = unix.SYS_RECVFROM, 0
	send.Purpose, receive.Purpose = "identify the command to toolguardd", "wait for toolguardd to set the command's limits"
	return []forkexec.Call{send, receive}
}
