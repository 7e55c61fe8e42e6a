package launch

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/proc"
	"github.com/toolguard/toolguard/internal/session/launch/forkexec"
)

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
	keep := append([]int{int(exe.Fd()), int(instructions.Fd()), pair[1]}, c.Keep...)
	args, err := c.Wrapper.Args(inner, keep)
	if err != nil {
		_ = unix.Close(pair[1])
		return 0, &forkexec.Error{Purpose: "make the command line of " + c.Wrapper.Path, Err: err}
	}
	child := forkexec.Command{Path: c.Wrapper.Path, Argv: append([]string{c.Wrapper.Path}, args...), Env: c.Wrapper.Env, Inherit: keep, Cgroup: c.Cgroup}
	for _, f := range c.Wrapper.Files {
		child.Inherit = append(child.Inherit, int(f.Fd()))
	}
	pid, err = child.Start()
	_ = unix.Close(pair[1])
	if err != nil {
		return 0, &forkexec.Error{Purpose: "start " + c.Wrapper.Path, Err: err}
	}
	if c.Process, err = receive(pair[0]); err != nil {
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
	fd, err := unix.MemfdCreate("instructions", unix.MFD_CLOEXEC|unix.MFD_NOEXEC_SEAL)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3
		fd, err = unix.MemfdCreate("instructions", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "instructions")
	if _, err = f.Write(b); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
	}
	return f, err
}

// receive waits for the stage to execute the command, and returns the command's process. The kernel states the stage's pid in this process's
// PID namespace.
func receive(socket int) (*proc.Process, error) {
	pid, result, err := receiveGreeting(socket)
	if err != nil {
		return nil, &forkexec.Error{Purpose: "start the process within the wrapper", Err: err}
	}
	defer result.Close()
	process, err := proc.Open(pid, 0)
	if err == nil {
		_, err = unix.Write(socket, []byte{0})
	}
	if err != nil {
		return nil, &forkexec.Error{Purpose: "identify the process within the wrapper", Err: err}
	}
	b, err := io.ReadAll(result)
	if err == nil && len(b) == 0 {
		return process, nil
	}
	process.Close()
	var failure stageError
	if err == nil {
		err = json.Unmarshal(b, &failure)
	}
	if err != nil {
		return nil, &forkexec.Error{Purpose: "start the process within the wrapper", Err: err}
	}
	return nil, failure.error()
}

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

// loadFilter loads a system call filter for the calling thread.
func loadFilter(operation, flags uintptr, prog *unix.SockFprog) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, operation, flags, uintptr(unsafe.Pointer(prog))); errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
