package kernelaudit

import (
	"encoding/binary"
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A datagram that arrived before the deadline is read after it.
func TestReceiveLate(t *testing.T) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	must(t, err)
	f := os.NewFile(uintptr(fd), "netlink")
	defer f.Close()
	conn, err := f.SyscallConn()
	must(t, err)
	ask := make([]byte, headerLen)
	binary.NativeEndian.PutUint32(ask, uint32(len(ask)))
	binary.NativeEndian.PutUint16(ask[4:], unix.NLMSG_NOOP)
	binary.NativeEndian.PutUint16(ask[6:], unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	must(t, unix.Sendto(fd, ask, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})) // it's acknowledged at once
	must(t, f.SetReadDeadline(time.Unix(1, 0)))
	buf := make([]byte, 1<<10)
	if m, err := receive(conn, fd, buf); err != nil || m.kind != unix.NLMSG_ERROR {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := receive(conn, fd, buf); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("without another datagram: %v", err)
	}
}
