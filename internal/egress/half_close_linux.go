package egress

import (
	"net"

	"golang.org/x/sys/unix"
)

// bytesReceived returns the number of bytes that have arrived on a connection.
func bytesReceived(c *net.TCPConn) (n uint64) {
	if c == nil {
		return 0
	}
	rc, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = rc.Control(func(fd uintptr) {
		if info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = info.Bytes_received
		}
	})
	return n
}

// clientGone reports whether a client has closed its connection. A client that has closed only its sending side may still wait for a
// response, and looks the same; it counts as gone when it has acknowledged nothing since the last check.
func clientGone(c *net.TCPConn, got *uint64) (is bool) {
	rc, err := c.SyscallConn()
	if err != nil {
		return true
	}
	err = rc.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		if n, err := unix.Poll(p, 0); err != nil || n == 0 {
			return
		}
		info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
		is = p[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0 || err != nil || info.Bytes_acked == *got
		if err == nil {
			*got = info.Bytes_acked
		}
	})
	return is || err != nil
}
