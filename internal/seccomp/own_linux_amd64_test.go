package seccomp

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestOwn checks the arguments that toolguard's own programs may use, with and without each of their needs.
func TestOwn(t *testing.T) {
	pid, all := uint64(os.Getpid()), OwnProgram{Unix: true, Diag: true, Audit: true, OtherProcesses: true}
	eperm, eacces := retErrno(unix.EPERM), retErrno(unix.EACCES)
	for _, x := range []struct {
		nr           uint32
		args         [6]uint64
		none, needed uint32
	}{
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET6, unix.SOCK_DGRAM}, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_RAW}, eacces, eacces},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, eacces, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, eacces, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_SOCKET, [6]uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, eacces, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_CLONE, [6]uint64{unix.CLONE_VM | unix.CLONE_THREAD}, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_CLONE, [6]uint64{unix.CLONE_NEWUSER}, eperm, eperm},
		{unix.SYS_TGKILL, [6]uint64{pid, 1, 9}, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_TGKILL, [6]uint64{pid + 1, 1, 9}, eperm, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_KILL, [6]uint64{pid, 9}, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_KILL, [6]uint64{^uint64(0), 9}, eperm, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_PRLIMIT64, [6]uint64{0, 0, 1}, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_PRLIMIT64, [6]uint64{1, 0, 1}, eperm, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_FCHMODAT, [6]uint64{0, 0, 0o4755}, eperm, eperm},
		{unix.SYS_FCHMODAT, [6]uint64{0, 0, 0o755}, unix.SECCOMP_RET_ALLOW, unix.SECCOMP_RET_ALLOW},
		{unix.SYS_IOCTL, [6]uint64{0, tiocSTI}, eperm, eperm},
		{unix.SYS_FCNTL, [6]uint64{0, unix.F_SETLEASE}, eacces, eacces},
		{newest + 1, [6]uint64{}, retErrno(unix.ENOSYS), retErrno(unix.ENOSYS)},
		{x32Bit | unix.SYS_GETPID, [6]uint64{}, unix.SECCOMP_RET_KILL_PROCESS, unix.SECCOMP_RET_KILL_PROCESS},
	} {
		for i, o := range []OwnProgram{{}, all} {
			f, err := o.Filter()
			childtest.Must(t, err)
			d := data{nr: x.nr, arch: nativeArch, args: x.args}
			if got, want := run(f.Program, &d), []uint32{x.none, x.needed}[i]; got != want {
				t.Errorf("%+v: %s%x: %#x, want %#x", o, Name(nativeArch, int(x.nr)), x.args, got, want)
			}
			if d.arch = archI386; run(f.Program, &d) != unix.SECCOMP_RET_KILL_PROCESS {
				t.Errorf("%+v: an i386 call isn't killed", o)
			}
		}
	}
}
