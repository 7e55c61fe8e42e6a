package launch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

// reject rejects a descriptor by which the command would reach around the mounts: it opens /proc/self/fd/N again, in the mounts in which toolguard's
// caller opened it.
func (w *Wrapper) reject(fds []int) error {
	for _, fd := range fds {
		var st unix.Stat_t
		path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd))
		if err != nil || unix.Fstat(fd, &st) != nil {
			continue // it's closed
		}
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return fmt.Errorf("descriptor %d is the folder %s, beneath which the mounts of a session don't apply: pass none, such as by </dev/null", fd, path)
		}
		if !strings.HasPrefix(path, "/") {
			continue // it has no name: a pipe, a socket
		}
		if caps := w.Covers(strings.TrimSuffix(path, " (deleted)")); caps != 0 {
			return fmt.Errorf("descriptor %d is %s, where the policy denies %s and a descriptor would grant it: use a pipe, such as cat FILE |", fd, path, caps)
		}
	}
	return nil
}

// greet connects the stage to the outer toolguard: it sends the descriptor of a socket on which it reports a failure, and which is closed when
// the command is executed, and waits until the outer toolguard knows its process. It returns its own end of the socket.
func greet(outer int) (result int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pair[1])
	if err := unix.Sendmsg(outer, []byte{0}, unix.UnixRights(pair[1]), nil, unix.MSG_NOSIGNAL); err != nil {
		return -1, err
	}
	n, err := unix.Read(outer, make([]byte, 1))
	if err == nil && n != 1 {
		err = io.ErrUnexpectedEOF
	}
	return pair[0], err
}

// startWrapped starts the command within its wrapper, and finds its own process. It returns the wrapper's, which ends with the command's exit
// status.
func (c *Command) startWrapped() (pid int, err error) {
	instructions, err := c.instructions()
	if err != nil {
		return 0, &forkexec.Error{Purpose: "prepare the process within the wrapper", Err: err}
	}
	defer instructions.Close()
	exe, err := os.Open("/proc/self/exe")
	if err != nil {
		return 0, &forkexec.Error{Purpose: "open toolguard's own program", Err: err}
	}
	defer exe.Close()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, &forkexec.Error{Purpose: "make a socket", Err: err}
	}
	defer unix.Close(pair[0])
	// The kernel adds the sender's process to each message (unix(7)), if this is set before.
	if err := unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_PASSCRED, 1); err != nil {
		_ = unix.Close(pair[1])
		return 0, &forkexec.Error{Purpose: "make a socket", Err: err}
	}
	inner := []string{fmt.Sprintf("/proc/self/fd/%d", exe.Fd()), StageFlag, strconv.Itoa(int(instructions.Fd())), strconv.Itoa(pair[1])}
	if err := c.Wrapper.reject(c.Keep); err != nil {
		_ = unix.Close(pair[1])
		return 0, &forkexec.Error{Purpose: "pass on the descriptors", Err: err}
	}
	keep := append([]int{int(exe.Fd()), int(instructions.Fd()), pair[1]}, c.Keep...)
	args, err := c.Wrapper.Args(inner, keep)
	if err != nil {
		_ = unix.Close(pair[1])
		return 0, &forkexec.Error{Purpose: "make the command line of " + c.Wrapper.Path, Err: err}
	}
	child := forkexec.Command{Path: c.Wrapper.Path, Argv: append([]string{c.Wrapper.Path}, args...), Env: c.Wrapper.Env, Inherit: keep, Cgroup: c.Cgroup, Calls: []forkexec.Call{maskSignals(unix.SIG_BLOCK)}}
	for _, f := range c.Wrapper.Files {
		child.Inherit = append(child.Inherit, int(f.Fd()))
	}
	pid, err = child.Start()
	_ = unix.Close(pair[1])
	if err != nil {
		return 0, &forkexec.Error{Purpose: "start " + c.Wrapper.Path, Err: err}
	}
	sup := cmp.Or(c.Wrapper.Supervisor, &Supervisor{})
	sup.SetWrapper(pid)
	if c.Process, err = receive(pair[0], func(p *proc.Process) { sup.SetWrapped(pid, p) }); err != nil {
		sup.SetWrapper(0)
		_ = syscall.Kill(pid, syscall.SIGKILL)
		for waited := error(syscall.EINTR); errors.Is(waited, syscall.EINTR); {
			_, waited = syscall.Wait4(pid, nil, 0, nil)
		}
		return 0, err
	}
	return pid, nil
}

// instructions returns the file that the stage reads.
func (c *Command) instructions() (*os.File, error) {
	b, err := c.encode()
	if err != nil {
		return nil, err
	}
	return proc.MemoryFile("instructions", b)
}

// receive waits for the stage to execute the command, and returns the command's process. The kernel states the stage's pid in this process's
// PID namespace. known gets that process before the stage goes on.
func receive(socket int, known func(*proc.Process)) (*proc.Process, error) {
	limit := unix.NsecToTimeval(int64(startTime))
	if err := unix.SetsockoptTimeval(socket, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
		return nil, &forkexec.Error{Purpose: "limit the time of the start", Err: err}
	}
	pid, result, err := receiveGreeting(socket)
	if errors.Is(err, unix.EAGAIN) {
		err = fmt.Errorf("it didn't start within %v", startTime)
	}
	if err != nil {
		return nil, &forkexec.Error{Purpose: "start the process within the wrapper", Err: err}
	}
	defer result.Close()
	process, err := proc.Open(pid, 0)
	if err == nil {
		known(process)
		_, err = unix.Write(socket, []byte{0})
	}
	if err != nil {
		return nil, &forkexec.Error{Purpose: "identify the process within the wrapper", Err: err}
	}
	b, err := io.ReadAll(result)
	failed, executes := bytes.CutPrefix(b, executing)
	switch {
	case err == nil && executes && len(failed) == 0:
		return process, nil
	case err == nil && len(failed) == 0:
		err = errors.New("it ended before the command was executed")
	}
	process.Close()
	var failure stageError
	if err == nil {
		err = json.Unmarshal(failed, &failure)
	}
	if err != nil {
		return nil, &forkexec.Error{Purpose: "start the process within the wrapper", Err: err}
	}
	return nil, failure.error()
}

// startTime bounds how long a wrapper may take to make its mounts: a workspace with very many names that a policy masks makes it slow.
const startTime = time.Minute

var errWrapperEnded = errors.New("the wrapper ended before")

func receiveGreeting(socket int) (pid int, result *os.File, err error) {
	control := make([]byte, unix.CmsgSpace(4)+unix.CmsgSpace(unix.SizeofUcred))
	var n, used int
	for err = error(unix.EINTR); errors.Is(err, unix.EINTR); {
		n, used, _, _, err = unix.Recvmsg(socket, make([]byte, 1), control, unix.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return 0, nil, err
	}
	if n == 0 {
		return 0, nil, errWrapperEnded
	}
	messages, err := unix.ParseSocketControlMessage(control[:used])
	if err != nil {
		return 0, nil, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil && len(fds) == 1 {
			result = os.NewFile(uintptr(fds[0]), "result")
		}
		if cred, err := unix.ParseUnixCredentials(&m); err == nil {
			pid = int(cred.Pid)
		}
	}
	if pid == 0 || result == nil {
		return 0, nil, errors.New("its greeting is malformed")
	}
	return pid, result, nil
}

// executing is what the stage sends right before it executes the command.
var executing = []byte{'x'}

// wrapperSignals are those that the wrapper's processes leave to the command: they would end or stop by the terminal's, which go to the whole process
// group. The stage gets them again.
var wrapperSignals = []syscall.Signal{
	syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU,
}

// maskSignals returns the system call that blocks or unblocks these signals.
func maskSignals(how uintptr) forkexec.Call {
	set := new(uint64)
	for _, sig := range wrapperSignals {
		*set |= 1 << (sig - 1)
	}
	return forkexec.Call{
		Purpose: "mask the signals", Nr: unix.SYS_RT_SIGPROCMASK, Args: [5]uintptr{how, 0, 0, unsafe.Sizeof(*set)}, Pointers: [5]unsafe.Pointer{1: unsafe.Pointer(set)},
	}
}

// unmaskSignals unblocks them for the calling thread.
func unmaskSignals() error {
	c := maskSignals(unix.SIG_UNBLOCK)
	if _, _, errno := unix.RawSyscall6(c.Nr, c.Args[0], uintptr(c.Pointers[1]), 0, c.Args[3], 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// loadFilter loads a system call filter for the calling thread.
func loadFilter(operation, flags uintptr, prog *unix.SockFprog) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, operation, flags, uintptr(unsafe.Pointer(prog))); errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
