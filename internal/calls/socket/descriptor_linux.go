package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Receiver receives the connections that a session sends over its descriptor.
type Receiver struct{ conn *net.UnixConn }

// Pair makes a descriptor for a session's processes, and what receives their connections. The session's end is closed on exec: the caller passes it
// on.
func Pair() (*Receiver, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "calls"), os.NewFile(uintptr(fds[1]), "calls of the session")
	defer ours.Close()
	c, err := net.FileConn(ours)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return &Receiver{c.(*net.UnixConn)}, theirs, nil
}

// Close ends Receive.
func (r *Receiver) Close() error { return r.conn.Close() }

// ErrMessage is the error for a message that carries no connection. The next one may.
var ErrMessage = errors.New("a message without exactly one end of a pair of stream sockets")

// Receive waits for the next connection. An error other than ErrMessage is final: every process of the session has closed its end, or one has shut
// it down.
func (r *Receiver) Receive() (net.Conn, error) {
	oob := make([]byte, unix.CmsgSpace(2*4)) // the kernel closes those for which there is no space
	n, size, flags, _, err := r.conn.ReadMsgUnix(make([]byte, 2), oob)
	if err != nil && r.hungUp() { // net has the same error for a message of no bytes
		return nil, err
	}
	fds := received(oob[:size])
	if err != nil || n != 1 || len(fds) != 1 || flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0 {
		closeAll(fds)
		return nil, ErrMessage
	}
	if err := checkEnd(fds[0]); err != nil {
		closeAll(fds)
		return nil, ErrMessage
	}
	f := os.NewFile(uintptr(fds[0]), "connection")
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, ErrMessage
	}
	return &sharedConn{c.(*net.UnixConn)}, nil
}

// hungUp reports whether no message can come any more.
func (r *Receiver) hungUp() bool {
	raw, err := r.conn.SyscallConn()
	if err != nil {
		return true
	}
	hungUp := true
	_ = raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, err := unix.Poll(p, 0)
		hungUp = err == nil && p[0].Revents&(unix.POLLRDHUP|unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
	})
	return hungUp
}

// received are the descriptors in a message. net has them closed on exec.
func received(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		if list, err := unix.ParseUnixRights(&messages[i]); err == nil {
			fds = append(fds, list...)
		}
	}
	return fds
}

func closeAll(fds []int) {
	for _, fd := range fds {
		_ = unix.Close(fd)
	}
}

// checkEnd returns an error for a descriptor that isn't an end of a pair of stream sockets. A connection to a server that has a name is none: the
// server could see what is written to it as this process's (SCM_CREDENTIALS).
func checkEnd(fd int) error {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if err != nil {
		return err
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || domain != unix.AF_UNIX || kind != unix.SOCK_STREAM {
		return errors.Join(unix.ESOCKTNOSUPPORT, err)
	}
	for _, call := range []uintptr{unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME} {
		var name unix.RawSockaddrUnix
		size := uint32(unix.SizeofSockaddrUnix)
		if _, _, e := unix.Syscall(call, uintptr(fd), uintptr(unsafe.Pointer(&name)), uintptr(unsafe.Pointer(&size))); e != 0 {
			return e
		}
		if size != uint32(unsafe.Sizeof(name.Family)) { // package unix can't distinguish no name from an abstract one
			return unix.EISCONN
		}
	}
	return nil
}

// sharedConn is a connection whose open file is also a session's: a process of it can clear O_NONBLOCK, and then a plain read would block a
// thread, in spite of deadlines and Close.
type sharedConn struct{ *net.UnixConn }

// Read never blocks outside of the runtime's poller.
func (c *sharedConn) Read(p []byte) (int, error) {
	return c.transfer("read", syscallConn.Read, func(fd int) (int, error) {
		n, _, err := unix.Recvfrom(fd, p, unix.MSG_DONTWAIT)
		if n == 0 && err == nil && len(p) > 0 {
			err = errEnd
		}
		return n, err
	})
}

// Write never blocks outside of the runtime's poller.
func (c *sharedConn) Write(p []byte) (done int, err error) {
	for done < len(p) {
		n, err := c.transfer("write", syscallConn.Write, func(fd int) (int, error) {
			return unix.SendmsgN(fd, p[done:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		})
		if done += n; err != nil {
			return done, err
		}
	}
	return done, nil
}

// connectOver sends one end of a new pair of sockets over a descriptor, and returns the other: a new connection.
func connectOver(ctx context.Context, fd int) (*net.UnixConn, error) {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind, kindErr := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kindErr != nil || domain != unix.AF_UNIX || kind != unix.SOCK_SEQPACKET {
		return nil, fmt.Errorf("%s%d isn't a session's descriptor: a program on the way has closed it", Descriptor, fd)
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours := os.NewFile(uintptr(fds[0]), "connection")
	defer ours.Close()
	defer unix.Close(fds[1])
	for {
		err := unix.Sendmsg(fd, []byte{0}, unix.UnixRights(fds[1]), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ETOOMANYREFS) {
			return nil, fmt.Errorf("connect over %s%d: %w", Descriptor, fd, err)
		}
		select { // the session has many connections, and the descriptor is shared: its mode must not be changed
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(5 * time.Millisecond):
		}
	}
	c, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}
