package forkexec

import (
	"errors"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/session/launch/forkexec/nofile"
)

// Command is a program to execute, and the system calls of its process before that.
type Command struct {
	Path      string
	Argv, Env []string
	Inherit   []int  // the descriptors that stay open; all others are closed
	Cgroup    int    // the descriptor of the cgroup's folder to start in; 0: the caller's cgroup
	Calls     []Call // made last, in order
}

// Call is a system call that must return Want; otherwise nothing is executed.
type Call struct {
	Purpose  string // for the error
	Nr       uintptr
	Args     [5]uintptr
	Pointers [5]unsafe.Pointer // pointer arguments, which are 0 in Args
	Want     uintptr
}

// Error is a failed call before the command's execve.
type Error struct {
	Purpose string
	Err     error
}

func (e *Error) Error() string { return e.Purpose + ": " + e.Err.Error() }
func (e *Error) Unwrap() error { return e.Err }

// Start starts the command as a child of the calling thread, which must be locked to its goroutine. The kernel kills the child when
// the thread ends. An *Error is a failed preparation; any other error is that of execve.
func (c *Command) Start() (pid int, err error) {
	execve, err := c.execve()
	if err != nil {
		return 0, &Error{"prepare the command line", err}
	}
	ch := &child{
		calls:  append(append(c.before(), c.Calls...), execve),
		clone3: cloneArgs{flags: vforks | unix.CLONE_INTO_CGROUP, exitSignal: uint64(unix.SIGCHLD), cgroup: uint64(c.Cgroup)},
	}
	upid, errno := ch.fork()
	afterFork()
	if errno != 0 && c.Cgroup != 0 {
		return 0, &Error{"fork into the cgroup (clone3)", errno}
	} else if errno != 0 {
		return 0, &Error{"fork", errno}
	}
	if ch.errno == 0 {
		return int(upid), nil
	}
	for err = error(syscall.EINTR); errors.Is(err, syscall.EINTR); {
		_, err = syscall.Wait4(int(upid), nil, 0, nil)
	}
	if ch.index < len(ch.calls)-1 {
		return 0, &Error{ch.calls[ch.index].Purpose, ch.errno}
	}
	return 0, ch.errno
}

// before returns the first calls of every command's process.
func (c *Command) before() []Call {
	calls := []Call{
		{Purpose: "set the parent-death signal", Nr: unix.SYS_PRCTL, Args: [5]uintptr{unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL)}},
		// If the parent had died before, the child would have another one.
		{Purpose: "check that the parent is alive", Nr: unix.SYS_GETPPID, Want: uintptr(os.Getpid())},
		// CLOSE_RANGE_CLOEXEC exists since Linux 5.11, before Landlock. The child has its own descriptor table.
		{
			Purpose: "close the open descriptors", Nr: unix.SYS_CLOSE_RANGE,
			Args: [5]uintptr{0, uintptr(^uint32(0)), unix.CLOSE_RANGE_CLOEXEC},
		},
	}
	for _, fd := range c.Inherit {
		calls = append(calls, Call{Purpose: "inherit a descriptor", Nr: unix.SYS_FCNTL, Args: [5]uintptr{uintptr(fd), unix.F_SETFD}})
	}
	if old := nofile.Raised(); old != nil {
		calls = append(calls, Call{
			Purpose: "restore the limit of open files", Nr: unix.SYS_PRLIMIT64,
			Args: [5]uintptr{0, unix.RLIMIT_NOFILE}, Pointers: [5]unsafe.Pointer{2: unsafe.Pointer(old)},
		})
	}
	return calls
}

func (c *Command) execve() (Call, error) {
	path, err := syscall.BytePtrFromString(c.Path)
	if err != nil {
		return Call{}, err
	}
	argv, err := syscall.SlicePtrFromStrings(c.Argv)
	if err != nil {
		return Call{}, err
	}
	env, err := syscall.SlicePtrFromStrings(c.Env)
	if err != nil {
		return Call{}, err
	}
	return Call{
		Purpose: "execute", Nr: unix.SYS_EXECVE,
		Pointers: [5]unsafe.Pointer{unsafe.Pointer(path), unsafe.Pointer(&argv[0]), unsafe.Pointer(&env[0])},
	}, nil
}

// child is the memory that both sides of the fork share.
type child struct {
	clone3 cloneArgs     // with a cgroup, or unused
	calls  []Call        // the last one is execve
	index  int           // of the current call
	errno  syscall.Errno // of the failed call; 0: the child has executed
}

// cloneArgs is struct clone_args of Linux 5.7.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize, cgroup uint64
}

const vforks = unix.CLONE_VFORK | unix.CLONE_VM

// fork returns in the parent alone, when the child has executed or ended. The caller then calls afterFork, from its own frame.
//
//go:noinline
//go:norace
//go:nocheckptr
func (c *child) fork() (pid uintptr, errno syscall.Errno) {
	var r uintptr
	beforeFork()
	if c.clone3.cgroup == 0 {
		pid, errno = vfork(unix.SYS_CLONE, vforks|uintptr(unix.SIGCHLD), 0)
	} else {
		pid, errno = vfork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&c.clone3)), unsafe.Sizeof(c.clone3))
	}
	if pid != 0 || errno != 0 {
		return pid, errno
	}
	afterForkInChild()
	for c.index = 0; ; c.index++ {
		call := &c.calls[c.index]
		r, _, c.errno = syscall.RawSyscall6(
			call.Nr, call.Args[0]|uintptr(call.Pointers[0]), call.Args[1]|uintptr(call.Pointers[1]),
			call.Args[2]|uintptr(call.Pointers[2]), call.Args[3]|uintptr(call.Pointers[3]),
			call.Args[4]|uintptr(call.Pointers[4]), 0)
		if c.errno == 0 && r != call.Want {
			c.errno = syscall.EINVAL
		}
		if c.errno != 0 {
			break
		}
	}
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, 253, 0, 0)
	}
}

//go:linkname beforeFork syscall.runtime_BeforeFork
func beforeFork()

//go:linkname afterFork syscall.runtime_AfterFork
func afterFork()

//go:linkname afterForkInChild syscall.runtime_AfterForkInChild
func afterForkInChild()

// vfork makes a system call that returns twice, on the same stack: the child's return address must not overwrite the parent's.
// Call it directly, not through a variable or from another package, where the compiler adds a frame.
//
//go:noescape
func vfork(nr, arg0, arg1 uintptr) (pid uintptr, errno syscall.Errno)
