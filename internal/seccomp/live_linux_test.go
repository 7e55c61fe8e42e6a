package seccomp

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
)

// operationTest is an operation with its results bare and under a policy.
type operationTest struct {
	prepare  func()
	do       func() (syscall.Errno, uintptr)
	policy   func() policy.SourceLayer
	bare     syscall.Errno // the result without filters, 0 for success
	confined syscall.Errno
	older    syscall.Errno // the result in both cases on kernels without the call
	root     bool          // only root's bare run shows that it works
	abi      int           // the Landlock ABI that the filters believe in; 0: 7
}

func (d operationTest) before() {
	if d.prepare != nil {
		d.prepare()
	}
}

func (d operationTest) layer() policy.SourceLayer {
	l := denies(policy.FS, policy.Net)
	if d.policy != nil {
		l = d.policy()
	}
	l.Authority = policy.Session
	return l
}

func call(nr uintptr, args ...uintptr) func() (syscall.Errno, uintptr) {
	return func() (syscall.Errno, uintptr) {
		var a [6]uintptr
		copy(a[:], args)
		r, _, e := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
		return e, r
	}
}

// fork creates a process with clone's flags that exits at once.
func fork(flags uintptr) func() (syscall.Errno, uintptr) {
	return func() (syscall.Errno, uintptr) {
		pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e == 0 && pid == 0 {
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
		}
		return e, pid
	}
}

// scratch is the name of a file of the child's own.
var scratch [64]byte

func makeScratch() {
	f, err := os.CreateTemp("/tmp", "toolguard-seccomp-")
	if err != nil {
		panic(err)
	}
	copy(scratch[:], f.Name())
	_ = f.Close()
}

// openScratch opens the file, and then removes it.
func openScratch(flags uintptr) func() (syscall.Errno, uintptr) {
	return func() (syscall.Errno, uintptr) {
		defer call(unix.SYS_UNLINKAT, ^uintptr(99), pointer(&scratch[0]), 0)()
		dir := -100 // AT_FDCWD
		return call(unix.SYS_OPENAT, uintptr(dir), pointer(&scratch[0]), flags, 0)()
	}
}

// cutScratch truncates it by its path.
func cutScratch() (syscall.Errno, uintptr) {
	defer call(unix.SYS_UNLINKAT, ^uintptr(99), pointer(&scratch[0]), 0)()
	return call(unix.SYS_TRUNCATE, pointer(&scratch[0]), 0)()
}

// fcntlScratch requests a lease on it, or about one: F_RDLCK, for which read access is enough.
func fcntlScratch(cmd uintptr) func() (syscall.Errno, uintptr) {
	return func() (syscall.Errno, uintptr) {
		_, fd := openScratch(unix.O_RDONLY)()
		return call(unix.SYS_FCNTL, fd, cmd, unix.F_RDLCK)()
	}
}

func pointer[T any](v *T) uintptr { return uintptr(unsafe.Pointer(v)) }

func open() policy.SourceLayer { return policy.SourceLayer{} }
func strictly() policy.SourceLayer {
	return policy.SourceLayer{Syscalls: policy.Syscalls{Profile: "strict"}}
}

// withRings allows io_uring by name.
func withRings(l policy.SourceLayer) func() policy.SourceLayer {
	return func() policy.SourceLayer { return syscalls(l, policy.Syscalls{Allow: rings}) }
}

var (
	root     = []byte("/\x00")
	name     = []byte("x\x00")
	keyType  = []byte("user\x00")
	ring     [120]byte
	pair     [2]int32
	ownLimit unix.Rlimit
	self     = uintptr(os.Getpid()) // a process given by its number counts as another
)

// operationTests run on this kernel. A nonzero bare result is an error of the call itself, which shows that the kernel ran it.
var operationTests = map[string]operationTest{
	"chroot":                 {do: call(unix.SYS_CHROOT, pointer(&root[0])), confined: unix.EPERM, root: true},
	"mount":                  {do: call(unix.SYS_MOUNT, 0, 0, 0, 0, 0), bare: unix.EFAULT, confined: unix.EPERM},
	"fsopen":                 {do: call(unix.SYS_FSOPEN, 0, 0xff), bare: unix.EINVAL, confined: unix.EPERM, root: true},
	"open_tree":              {do: call(unix.SYS_OPEN_TREE, ^uintptr(99), pointer(&root[0]), 0), confined: unix.EPERM},
	"unshare":                {do: call(unix.SYS_UNSHARE, unix.CLONE_NEWUTS), confined: unix.EPERM, root: true},
	"unshare files":          {do: call(unix.SYS_UNSHARE, unix.CLONE_FS), confined: 0},
	"user namespace":         {do: fork(unix.CLONE_NEWUSER), confined: unix.EPERM},
	"user namespace allowed": {do: fork(unix.CLONE_NEWUSER), policy: func() policy.SourceLayer { return policy.SourceLayer{Namespaces: true} }},
	"fork":                   {do: fork(0)},
	"clone":                  {do: call(unix.SYS_CLONE, unix.CLONE_NEWUSER|unix.CLONE_SIGHAND), bare: unix.EINVAL, confined: unix.EPERM},
	"clone3":                 {do: call(unix.SYS_CLONE3, 0, 0), bare: unix.EINVAL, confined: unix.ENOSYS},
	"setns":                  {do: call(unix.SYS_SETNS, 0, 0), bare: unix.EINVAL, confined: unix.EPERM},
	"bpf":                    {do: call(unix.SYS_BPF, 9999, 0, 0), bare: unix.EINVAL, confined: unix.EPERM, root: true},
	"perf":                   {do: call(unix.SYS_PERF_EVENT_OPEN, 0, 0, 0, 0, 0), bare: unix.EFAULT, confined: unix.EPERM},
	"add_key": {
		do:       call(unix.SYS_ADD_KEY, pointer(&keyType[0]), pointer(&name[0]), pointer(&name[0]), 1, ^uintptr(1)),
		confined: unix.EPERM,
	},
	"userfaultfd": {do: call(unix.SYS_USERFAULTFD, 1), confined: unix.EPERM},
	"io_uring":    {do: call(unix.SYS_IO_URING_SETUP, 1, pointer(&ring[0])), confined: unix.ENOSYS},
	"io_uring, allowed": {
		do: call(unix.SYS_IO_URING_SETUP, 1, pointer(&ring[0])), policy: withRings(policy.SourceLayer{}), confined: unix.ENOSYS,
	},
	"io_uring, seen": {do: call(unix.SYS_IO_URING_SETUP, 1, pointer(&ring[0])), policy: withRings(denies(policy.FS, policy.Net)), abi: FullMediation},
	"io_uring, with a denied name": {
		do: call(unix.SYS_IO_URING_SETUP, 1, pointer(&ring[0])), abi: FullMediation, confined: unix.ENOSYS, policy: func() policy.SourceLayer {
			return syscalls(policy.SourceLayer{}, policy.Syscalls{Allow: rings, Deny: []string{"connect"}})
		},
	},
	"io_uring, ports alone": {
		do: call(unix.SYS_IO_URING_SETUP, 1, pointer(&ring[0])), policy: withRings(with(policy.SourceLayer{}, tcp)), abi: FullMediation, confined: unix.ENOSYS,
	},
	"handle": {do: call(unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(99), 0, 0), bare: unix.EFAULT, confined: unix.EPERM, root: true},
	"reboot": {do: call(unix.SYS_REBOOT, 0, 0, 0), bare: unix.EINVAL, confined: unix.EPERM, root: true},
	"acct":   {do: call(unix.SYS_ACCT, pointer(&name[0])), bare: unix.ENOENT, confined: unix.EPERM, root: true},

	// The terminal: the kernel looks at 32 bits of the command. 0 isn't a terminal here, which is said after the filter.
	"TIOCSTI":        {do: call(unix.SYS_IOCTL, ^uintptr(0), 0x5412), bare: unix.EBADF, confined: unix.EPERM},
	"TIOCSTI hidden": {do: call(unix.SYS_IOCTL, ^uintptr(0), 0xdeadbeef00005412), bare: unix.EBADF, confined: unix.EPERM},
	"TIOCLINUX":      {do: call(unix.SYS_IOCTL, ^uintptr(0), 0x541c), bare: unix.EBADF, confined: unix.EPERM},
	"TIOCGWINSZ":     {do: call(unix.SYS_IOCTL, ^uintptr(0), 0x5413), bare: unix.EBADF, confined: unix.EBADF},

	// Leases, and the delegations that newer kernels know.
	"lease":             {do: fcntlScratch(unix.F_SETLEASE), prepare: makeScratch, confined: unix.EACCES},
	"lease, open":       {do: fcntlScratch(unix.F_SETLEASE), prepare: makeScratch, policy: open, confined: unix.EACCES},
	"lease, strict":     {do: fcntlScratch(unix.F_SETLEASE), prepare: makeScratch, policy: strictly, confined: unix.EACCES},
	"lease, hidden":     {do: fcntlScratch(0xdeadbeef00000400), prepare: makeScratch, confined: unix.EACCES},
	"a lease of others": {do: fcntlScratch(unix.F_GETLEASE), prepare: makeScratch},
	"delegation":        {do: call(unix.SYS_FCNTL, ^uintptr(0), 1040, 0), bare: unix.EBADF, confined: unix.EACCES},

	"inet":           {do: call(unix.SYS_SOCKET, 2, 1, 0), confined: unix.EACCES},
	"inet6":          {do: call(unix.SYS_SOCKET, 10, 2, 0), confined: unix.EACCES},
	"inet open":      {do: call(unix.SYS_SOCKET, 2, 1, 0), policy: open},
	"group, open":    {do: call(unix.SYS_SETSOCKOPT, 99, 0, unix.IP_ADD_MEMBERSHIP, 0, 0), policy: open, bare: unix.EBADF, confined: unix.EBADF},
	"group":          {do: call(unix.SYS_SETSOCKOPT, 99, 0, unix.IP_ADD_MEMBERSHIP, 0, 0), policy: func() policy.SourceLayer { return with(policy.SourceLayer{}, tcp) }, bare: unix.EBADF, confined: unix.EACCES},
	"foreign, open":  {do: call(unix.SYS_SETSOCKOPT, 99, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 0, 0), policy: open, bare: unix.EBADF, confined: unix.EBADF},
	"foreign":        {do: call(unix.SYS_SETSOCKOPT, 99, unix.IPPROTO_IPV6, unix.IPV6_FREEBIND, 0, 0), policy: func() policy.SourceLayer { return with(policy.SourceLayer{}, tcp) }, bare: unix.EBADF, confined: unix.EACCES},
	"another option": {do: call(unix.SYS_SETSOCKOPT, 99, 6, unix.IP_ADD_MEMBERSHIP, 0, 0), policy: func() policy.SourceLayer { return with(policy.SourceLayer{}, tcp) }, bare: unix.EBADF, confined: unix.EBADF},
	"inet tcp":       {do: call(unix.SYS_SOCKET, 2, 1, 0), policy: func() policy.SourceLayer { return with(policy.SourceLayer{}, tcp) }},
	"inet mptcp":     {do: call(unix.SYS_SOCKET, 2, 1, 262), policy: func() policy.SourceLayer { return with(policy.SourceLayer{}, tcp) }, confined: unix.EACCES},
	"inet udp":       {do: call(unix.SYS_SOCKET, 2, 2, 0), policy: func() policy.SourceLayer { return with(policy.SourceLayer{}, tcp) }, confined: unix.EACCES},
	"raw":            {do: call(unix.SYS_SOCKET, 2, 3, 1), policy: open, confined: unix.EACCES, root: true},
	"packet":         {do: call(unix.SYS_SOCKET, 17, 3, 0), policy: open, confined: unix.EACCES, root: true},
	"old packet":     {do: call(unix.SYS_SOCKET, 2, 10, 0), policy: open, confined: unix.EACCES, root: true},
	"netlink route":  {do: call(unix.SYS_SOCKET, 16, 3, 0)},
	"netlink uevent": {do: call(unix.SYS_SOCKET, 16, 3, 15), policy: open, confined: unix.EACCES},
	"unix":           {do: call(unix.SYS_SOCKET, 1, 1, 0), confined: unix.EACCES},
	"unix open":      {do: call(unix.SYS_SOCKET, 1, 1, 0), policy: open},
	"pair":           {do: call(unix.SYS_SOCKETPAIR, 1, 1, 0, pointer(&pair))},
	"pair datagram":  {do: call(unix.SYS_SOCKETPAIR, 1, 2, 0, pointer(&pair)), confined: unix.EACCES},

	"memfd":                    {do: call(unix.SYS_MEMFD_CREATE, pointer(&name[0]), 0), confined: unix.EACCES},
	"memfd noexec":             {do: call(unix.SYS_MEMFD_CREATE, pointer(&name[0]), 8), older: unix.EINVAL}, // 6.3
	"memfd, seen":              {do: call(unix.SYS_MEMFD_CREATE, pointer(&name[0]), 0), abi: FullMediation},
	"memfd open":               {do: call(unix.SYS_MEMFD_CREATE, pointer(&name[0]), 0), policy: open},
	"limit own":                {do: call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, pointer(&ownLimit), 0)},
	"limit another":            {do: call(unix.SYS_PRLIMIT64, self, unix.RLIMIT_CORE, pointer(&ownLimit), 0), confined: unix.EPERM},
	"ptrace":                   {do: call(unix.SYS_PTRACE, 0x4206, 0, 0, 0), bare: unix.ESRCH, confined: unix.ESRCH},
	"ptrace strict":            {do: call(unix.SYS_PTRACE, 0x4206, 0, 0, 0), policy: strictly, bare: unix.ESRCH, confined: unix.EPERM},
	"shm strict":               {do: call(unix.SYS_SHMGET, 0, 4096, 0o1600), policy: strictly, confined: unix.EPERM},
	"newer":                    {do: call(unix.SYS_LISTNS, 0, 0, 0, 0), bare: unix.EFAULT, confined: unix.ENOSYS, older: unix.ENOSYS}, // 6.19
	"minus one":                {do: call(^uintptr(0)), bare: unix.ENOSYS, confined: unix.ENOSYS},
	"cut by reading":           {do: openScratch(unix.O_RDONLY | unix.O_TRUNC), prepare: makeScratch, abi: 2, confined: unix.EACCES},
	"cut by opening for ioctl": {do: openScratch(3 | unix.O_TRUNC), prepare: makeScratch, abi: 2, confined: unix.EACCES},
	"cut by writing":           {do: openScratch(unix.O_WRONLY | unix.O_TRUNC), prepare: makeScratch, abi: 2},
	"cut by reading, abi 3":    {do: openScratch(unix.O_RDONLY | unix.O_TRUNC), prepare: makeScratch, abi: 3, confined: unix.EACCES},
	"cut by reading, seen":     {do: openScratch(unix.O_RDONLY | unix.O_TRUNC), prepare: makeScratch, abi: FullMediation},
	"cut by path, abi 3":       {do: cutScratch, prepare: makeScratch, abi: 3},
	"cut by path":              {do: cutScratch, prepare: makeScratch, abi: 2, confined: unix.EACCES},
	"openat2":                  {do: call(unix.SYS_OPENAT2, 0, 0, 0, 0), bare: unix.EINVAL, abi: 3, confined: unix.ENOSYS},
	"openat2, seen":            {do: call(unix.SYS_OPENAT2, 0, 0, 0, 0), bare: unix.EINVAL, abi: FullMediation, confined: unix.EINVAL},

	"getpid": {do: call(unix.SYS_GETPID)},
}

// TestKernelDenies runs each operation bare and under filters, as root and as nobody.
func TestKernelDenies(t *testing.T) {
	for what, d := range operationTests {
		if what == "x32" || what == "int 0x80" {
			continue // these end the process: TestForeignABIKilled
		}
		for _, uid := range childtest.Users() {
			if d.root && uid != 0 {
				continue
			}
			t.Run(fmt.Sprintf("%s as %d", what, uid), func(t *testing.T) {
				t.Parallel()
				want := d.confined
				if got := runChild(t, what, true, uid); d.older != 0 && got.Errno == d.older {
					want = d.older
				} else if got.Errno != d.bare {
					t.Errorf("without filters: %v, so it's no control: want %v", got.Errno, d.bare)
				}
				if got := runChild(t, what, false, uid); got.Errno != want {
					t.Errorf("under filters: %v, want %v", got.Errno, want)
				}
			})
		}
	}
}

// TestProgramsRun checks that ordinary programs work under the filters, which fork and exec inherit.
func TestProgramsRun(t *testing.T) {
	for _, argv := range [][]string{
		{"/bin/sh", "-c", "echo one | cat; (exit 3); test $? = 3 && echo two"},
		{"/usr/bin/env", "python3", "-c", "import threading,subprocess; t=threading.Thread(target=print,args=('in a thread',)); t.start(); t.join(); print(subprocess.run(['echo','x'],capture_output=True).stdout)"},
	} {
		if _, err := exec.LookPath(argv[0]); err != nil {
			t.Skip(err)
		}
		want, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		if err != nil {
			t.Logf("%v doesn't run here: %v", argv, err)
			continue
		}
		got, err := runRestricted(argv)
		if err != nil || got != string(want) {
			t.Errorf("%v under filters: %v, %q; bare: %q", argv, err, got, want)
		}
	}
}

// runRestricted starts a program from a thread with the strictest filters.
func runRestricted(argv []string) (out string, err error) {
	strictest := func() policy.SourceLayer {
		l := denies(policy.FS, policy.Net)
		l.Syscalls.Profile = "strict"
		return l
	}
	err = childtest.Thread(func() error {
		if err := restrict(operationTest{policy: strictest}); err != nil {
			return err
		}
		text, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
		out = string(text)
		return err
	})
	return out, err
}
