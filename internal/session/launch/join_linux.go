package launch

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// joining is how the command waits until toolguardd has put it into the session's cgroup: it says a byte, from which the kernel
// identifies it to toolguardd, and gets one. Without an answer it isn't executed.
func joining(f *os.File) []forkexec.Call {
	b := new([1]byte)
	say := forkexec.Call{
		Nr: unix.SYS_SENDTO, Args: [5]uintptr{f.Fd(), 0, 1, unix.MSG_NOSIGNAL}, Pointers: [5]unsafe.Pointer{1: unsafe.Pointer(b)}, Want: 1,
	}
	hear := say
	hear.Nr, hear.Args[3] = unix.SYS_RECVFROM, 0
	say.Purpose, hear.Purpose = "tell toolguardd of the command", "wait for toolguardd to set the command's limits"
	return []forkexec.Call{say, hear}
}
