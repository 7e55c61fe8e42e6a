package landlock

import (
	"bytes"
	"os"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// injectedErrno is a system call for which a filter returns an error, if its third argument is Arg or Arg is negative.
type injectedErrno struct {
	Call, Arg int
	Errno     syscall.Errno
}

// install installs the filter in all threads of the process.
func (a injectedErrno) install() error {
	const load, ifEqual, ret = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: load, K: 0},
		{Code: ifEqual, K: uint32(a.Call), Jf: 3},
		{Code: load, K: 16 + 2*8},
		{Code: ifEqual, K: uint32(a.Arg), Jf: 1},
		{Code: ret, K: unix.SECCOMP_RET_ERRNO | uint32(a.Errno)},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
	}
	if a.Arg < 0 {
		filter[3] = unix.SockFilter{Code: load, K: 0}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog))); e != 0 {
		return e
	}
	return nil
}

// TestCanaryDetects checks that the canary fails if Landlock is missing, off, or doesn't deny although its calls succeed. A filter as containers
// have it simulates this.
func TestCanaryDetects(t *testing.T) {
	version := abi(t)
	for _, c := range []struct {
		injectedErrno
		want string
	}{
		{injectedErrno{unix.SYS_GETPPID, -1, unix.EPERM}, ""}, // the control
		{injectedErrno{unix.SYS_LANDLOCK_CREATE_RULESET, -1, unix.ENOSYS}, "no Landlock in use: it takes Linux 5.13"},
		{injectedErrno{unix.SYS_LANDLOCK_CREATE_RULESET, -1, unix.EOPNOTSUPP}, "no Landlock in use: it is off"},
		{injectedErrno{unix.SYS_LANDLOCK_CREATE_RULESET, -1, unix.EPERM}, "get the Landlock ABI: operation not permitted"},
		{injectedErrno{unix.SYS_LANDLOCK_CREATE_RULESET, 1, 0}, "no Landlock in use: the kernel reports ABI 0"},
		{injectedErrno{unix.SYS_LANDLOCK_CREATE_RULESET, 2, unix.EINVAL}, ""}, // a kernel that doesn't report errata
		{injectedErrno{unix.SYS_LANDLOCK_CREATE_RULESET, 0, unix.EPERM}, "landlock_create_ruleset: operation not permitted"},
		{injectedErrno{unix.SYS_LANDLOCK_RESTRICT_SELF, -1, unix.E2BIG}, "landlock_restrict_self: argument list too long"},
		{injectedErrno{unix.SYS_LANDLOCK_RESTRICT_SELF, -1, 0}, "a folder could be opened that no rule grants"},
		{injectedErrno{unix.SYS_OPENAT, unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, unix.EACCES}, "there is no folder to try it on"},
		{injectedErrno{unix.SYS_PRCTL, 0, unix.EPERM}, "prctl: operation not permitted"},
	} {
		cmd := childtest.Command(t, os.Getuid(), childInput{Canary: &c.injectedErrno})
		var output bytes.Buffer
		cmd.Stderr = &output
		if err := cmd.Run(); (err == nil) != (c.want == "") || !strings.Contains(output.String(), c.want) {
			t.Errorf("call %d fails with %q: %v, %s", c.Call, c.Errno, err, output.String())
		}
	}
	if got, errata, err := Probe(); got != version || errata < 0 || err != nil {
		t.Error(got, errata, err)
	}
}
