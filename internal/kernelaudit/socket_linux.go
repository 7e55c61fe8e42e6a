package kernelaudit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// groupReadLog is AUDIT_NLGRP_READLOG, as a bit of sockaddr_nl.nl_groups.
const groupReadLog = 1

// receiveBuffer is the capacity of the multicast socket. The kernel charges memory only as it fills.
const receiveBuffer = 32 << 20

// headerLen is the length of a netlink message's header.
const headerLen = unix.SizeofNlMsghdr

// message is one netlink message; data is valid until the next read.
type message struct {
	kind uint16
	data []byte
}

// openControl opens the socket for requests.
func openControl() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_AUDIT)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	wait := unix.Timeval{Sec: 2}
	if err := errors.Join(
		os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})),
		os.NewSyscallError("setsockopt", unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &wait)),
	); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openLog opens the socket that receives every record. It doesn't block, so that the runtime's poller serves it.
func openLog() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_AUDIT)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil { // needs CAP_NET_ADMIN
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer) // capped at rmem_max; overflow is counted
	}
	group := &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groupReadLog}
	if err := errors.Join(attachFilter(fd), os.NewSyscallError("bind", unix.Bind(fd, group))); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// receive reads the next datagram of the kernel's within the deadline set on the file. After the deadline it returns a datagram that has
// arrived by then: on a busy machine the reader may run late.
func receive(conn syscall.RawConn, socket int, buf []byte) (m message, err error) {
	var n int
	for {
		var from unix.Sockaddr
		rerr := conn.Read(func(fd uintptr) bool {
			n, from, err = unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT)
			return err != unix.EAGAIN && err != unix.EINTR
		})
		if errors.Is(rerr, os.ErrDeadlineExceeded) {
			if n, from, err = unix.Recvfrom(socket, buf, unix.MSG_DONTWAIT); err == unix.EAGAIN || err == unix.EINTR {
				return m, rerr
			}
		} else if rerr != nil {
			return m, os.ErrClosed // the poller's own error isn't exported
		}
		if err != nil {
			return m, os.NewSyscallError("recvfrom", err)
		}
		if nl, ok := from.(*unix.SockaddrNetlink); ok && nl.Pid == 0 {
			return parseMessage(buf[:n])
		}
	}
}

// parseMessage parses an audit datagram, which is one message. The length is the datagram's: the kernel's length field counts the header in
// some versions and not in others.
func parseMessage(b []byte) (message, error) {
	if len(b) < headerLen {
		return message{}, fmt.Errorf("%w: %d bytes", errMalformed, len(b))
	}
	return message{kind: binary.NativeEndian.Uint16(b[4:]), data: b[headerLen:]}, nil
}

// request sends one message on the control socket. It waits for the kernel's acknowledgement and, unless want is 0, for an answer of that
// kind, which may arrive later.
func request(fd int, kind uint16, data []byte, want uint16) ([]byte, error) {
	b := make([]byte, headerLen, headerLen+len(data))
	*(*unix.NlMsghdr)(unsafe.Pointer(&b[0])) = unix.NlMsghdr{
		Len: uint32(headerLen + len(data)), Type: kind, Flags: unix.NLM_F_REQUEST | unix.NLM_F_ACK, Seq: 1,
	}
	if err := unix.Sendto(fd, append(b, data...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	return receiveAnswer(fd, want)
}

func receiveAnswer(fd int, want uint16) (answer []byte, err error) {
	buf := make([]byte, 1<<10) // far more than an answer; an error repeats the question
	done := false
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Pid != 0 {
			continue
		}
		m, err := parseMessage(buf[:n])
		switch {
		case err != nil:
			return nil, err
		case m.kind == want:
			answer = append([]byte(nil), m.data...)
		case m.kind == unix.NLMSG_ERROR && len(m.data) >= 4:
			if code := int32(binary.NativeEndian.Uint32(m.data)); code != 0 {
				return nil, syscall.Errno(-code)
			}
			done = true
		}
		if done && (want == 0 || answer != nil) {
			return answer, nil
		}
	}
	return nil, os.ErrDeadlineExceeded
}
