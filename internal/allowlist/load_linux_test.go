package allowlist

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/elastic/go-seccomp-bpf/arch"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
)

func TestMain(m *testing.M) { childtest.Main(m, runOrder) }

// childOrder has a child make a call of the table under a program's list. With -1 it has none, as the control; with -2 it loads a
// list where that is denied.
type childOrder struct{ Call, Program int }

// runOrder makes the call on a thread that existed before the list.
func runOrder(o childOrder) (errno syscall.Errno, err error) {
	if o.Program == -2 {
		if err := Load(Egress); err != nil {
			return 0, nil
		}
		return 0, Load(Ship) // egress's list has no seccomp(2)
	}
	turns, done := make(chan bool), make(chan syscall.Errno)
	go func() {
		runtime.LockOSThread()
		turns <- true
		<-turns
		a := calls[o.Call].args
		_, _, e := unix.RawSyscall6(calls[o.Call].nr, a[0], a[1], a[2], a[3], a[4], a[5])
		done <- e
	}()
	<-turns
	if o.Program >= 0 {
		err = Load(programs[o.Program])
	}
	turns <- true
	return <-done, err
}

var programs = []Program{Egress, Ship, Toolguardd}

// killed is the result of a call that kills the program.
const killed = syscall.Errno(1 << 16)

type args [6]uintptr

var (
	here    = ^uintptr(99) // AT_FDCWD
	nowhere = pointer("/nowhere\x00")
	root    = pointer("/\x00")
	parent  = uintptr(os.Getppid())
	own     = uintptr(os.Getpid())
)

func pointer(s string) uintptr { return uintptr(unsafe.Pointer(unsafe.StringData(s))) }

// calls are what each comes to without a list, and under the programs' in their order. An error of the call itself shows that it was reached.
var calls = []struct {
	name  string
	nr    uintptr
	args  args
	bare  syscall.Errno
	under []syscall.Errno
}{
	{"execute", unix.SYS_EXECVE, args{nowhere}, unix.ENOENT, []syscall.Errno{killed, killed, unix.ENOENT}},
	{"execute by descriptor", unix.SYS_EXECVEAT, args{here, nowhere}, unix.ENOENT, []syscall.Errno{killed, killed, killed}},
	{"trace", unix.SYS_PTRACE, args{unix.PTRACE_SEIZE}, unix.ESRCH, []syscall.Errno{killed, killed, killed}},
	{"unload a module", unix.SYS_DELETE_MODULE, args{}, unix.EFAULT, []syscall.Errno{killed, killed, killed}},
	{"mount", unix.SYS_MOUNT, args{}, unix.EFAULT, []syscall.Errno{killed, killed, unix.EFAULT}},
	{"unshare", unix.SYS_UNSHARE, args{unix.CLONE_FS}, 0, []syscall.Errno{killed, killed, killed}},
	{"enter a namespace", unix.SYS_SETNS, args{}, unix.EINVAL, []syscall.Errno{killed, killed, unix.EINVAL}},
	{"make a namespace", unix.SYS_CLONE, args{unix.CLONE_NEWUSER | unix.CLONE_SIGHAND}, unix.EINVAL, []syscall.Errno{unix.EPERM, unix.EPERM, unix.EPERM}},
	{"make a ring", unix.SYS_IO_URING_SETUP, args{1}, unix.EFAULT, []syscall.Errno{killed, killed, killed}},
	{"bpf", unix.SYS_BPF, args{9999}, unix.EINVAL, []syscall.Errno{unix.EINVAL, killed, unix.EINVAL}},
	{"open", unix.SYS_OPENAT, args{here, root}, 0, []syscall.Errno{unix.EPERM, 0, 0}},
	{"look at a file", unix.SYS_FACCESSAT, args{here, root}, 0, []syscall.Errno{unix.EPERM, 0, 0}},
	{"memory file", unix.SYS_MEMFD_CREATE, args{root}, 0, []syscall.Errno{killed, 0, killed}},
	{"setuid file", unix.SYS_FCHMODAT, args{here, nowhere, 0o4755}, unix.ENOENT, []syscall.Errno{unix.EPERM, unix.EPERM, unix.EPERM}},
	{"inet socket", unix.SYS_SOCKET, args{unix.AF_INET, unix.SOCK_STREAM}, 0, []syscall.Errno{0, 0, 0}},
	{"unix socket", unix.SYS_SOCKET, args{unix.AF_UNIX, unix.SOCK_STREAM}, 0, []syscall.Errno{unix.EACCES, 0, 0}},
	{"packet socket", unix.SYS_SOCKET, args{unix.AF_INET, 10}, 0, []syscall.Errno{unix.EACCES, unix.EACCES, unix.EACCES}},
	{"routes", unix.SYS_SOCKET, args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE}, 0, []syscall.Errno{0, 0, 0}},
	{"others' sockets", unix.SYS_SOCKET, args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_SOCK_DIAG}, 0, []syscall.Errno{unix.EACCES, unix.EACCES, 0}},
	{"audit records", unix.SYS_SOCKET, args{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT}, 0, []syscall.Errno{unix.EACCES, unix.EACCES, 0}},
	{"signal oneself", unix.SYS_TGKILL, args{own, own, 0}, 0, []syscall.Errno{0, 0, 0}},
	{"signal another", unix.SYS_TGKILL, args{parent, parent, 0}, 0, []syscall.Errno{unix.EPERM, unix.EPERM, 0}},
	{"own limit", unix.SYS_PRLIMIT64, args{0, unix.RLIMIT_CORE, 1}, unix.EFAULT, []syscall.Errno{unix.EFAULT, unix.EFAULT, unix.EFAULT}},
	{"limit another", unix.SYS_PRLIMIT64, args{parent, unix.RLIMIT_CORE, 1}, unix.EFAULT, []syscall.Errno{unix.EPERM, unix.EPERM, unix.EFAULT}},
	{"newer", unix.SYS_LISTNS, args{}, unix.EFAULT, []syscall.Errno{unix.EPERM, unix.EPERM, unix.EPERM}},
	{"no call", 5000, args{}, unix.ENOSYS, []syscall.Errno{unix.EPERM, unix.EPERM, unix.EPERM}},
	{"read", unix.SYS_READ, args{^uintptr(0)}, unix.EBADF, []syscall.Errno{unix.EBADF, unix.EBADF, unix.EBADF}},
}

// try returns the result of a call in a child.
func try(t *testing.T, o childOrder) (errno syscall.Errno) {
	t.Helper()
	cmd := childtest.Command(t, os.Getuid(), o)
	out, err := cmd.Output()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == unix.SIGSYS {
		return killed
	}
	if err == nil {
		err = json.Unmarshal(out, &errno)
	}
	if err != nil {
		t.Errorf("%q: %v", out, err)
	}
	return errno
}

// TestLoad makes each call without a list and under each. A call that the kernel doesn't have (ENOSYS) is no control.
func TestLoad(t *testing.T) {
	for i, c := range calls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := try(t, childOrder{i, -1}); got != c.bare && got != unix.ENOSYS && os.Getuid() == 0 {
				t.Errorf("without a list: %v, want %v", got, c.bare)
			}
			for p, want := range c.under {
				if got := try(t, childOrder{i, p}); got != want {
					t.Errorf("under the list of %s: %v, want %v", programs[p].name, got, want)
				}
			}
		})
	}
}

// TestNotLoaded checks the error of a list that can't be loaded.
func TestNotLoaded(t *testing.T) {
	cmd := childtest.Command(t, os.Getuid(), childOrder{Program: -2})
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), "restrict toolguard-ship to the system calls that it needs: operation not permitted") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

// TestCgo checks that a program that was built with cgo fails with a message, instead of being killed when the C library creates a
// thread.
func TestCgo(t *testing.T) {
	for value, want := range map[string]bool{"0": false, "1": true} {
		if got := hasCgo(&debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "-buildmode", Value: "exe"}, {Key: "CGO_ENABLED", Value: value}}}); got != want {
			t.Errorf("CGO_ENABLED=%s: %t", value, got)
		}
	}
}

// TestLists checks that every name is a call, and that the library's program allows exactly the listed ones, for each number.
func TestLists(t *testing.T) {
	info, err := arch.GetInfo("")
	if err != nil {
		t.Skip(err)
	}
	for _, p := range programs {
		for _, name := range slices.Concat(p.calls, attacks) {
			_, amd64 := arch.X86_64.SyscallNames[name]
			_, arm64 := arch.AARCH64.SyscallNames[name]
			if one := slices.Contains([]string{"arch_prctl", "epoll_wait", "poll", "newfstatat", "fstatat"}, name); !amd64 && !arm64 || amd64 != arm64 && !one {
				t.Errorf("%s: %s is a call of amd64: %t, of arm64: %t", p.name, name, amd64, arm64)
			}
		}
		policy := p.policy(info)
		program, err := policy.Assemble()
		childtest.Must(t, err)
		vm, err := bpf.NewVM(program)
		childtest.Must(t, err)
		for nr := range uint32(2000) {
			want := unix.SECCOMP_RET_ERRNO | int(unix.EPERM)
			if name := info.SyscallNumbers[int(nr)]; slices.Contains(p.calls, name) {
				want = unix.SECCOMP_RET_ALLOW
			} else if slices.Contains(attacks, name) {
				want = unix.SECCOMP_RET_KILL_PROCESS
			}
			data := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, nr), uint32(info.ID)) // as the machine in package bpf reads it
			if got, err := vm.Run(data); err != nil || uint32(got) != uint32(want) {
				t.Errorf("%s: number %d: %#x, %v, want %#x", p.name, nr, got, err, want)
			}
		}
	}
}
