package socket

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

type syscallConn = syscall.RawConn

var errEnd = errors.New("the end")

// transfer does one system call when the poller says that it can.
func (c *sharedConn) transfer(op string, when func(syscallConn, func(uintptr) bool) error, do func(fd int) (int, error)) (n int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var callErr error
	err = when(raw, func(fd uintptr) bool {
		for {
			n, callErr = do(int(fd))
			if !errors.Is(callErr, unix.EINTR) {
				return !errors.Is(callErr, unix.EAGAIN)
			}
		}
	})
	switch {
	case err != nil:
		return 0, err
	case errors.Is(callErr, errEnd):
		return 0, io.EOF
	case callErr != nil:
		return 0, &net.OpError{Op: op, Net: "unix", Err: callErr}
	}
	return n, nil
}

// Dial connects to an address: a path, or "fd:N" for an inherited descriptor.
func Dial(ctx context.Context, address string) (*net.UnixConn, error) {
	number, ok := strings.CutPrefix(address, Descriptor)
	if !ok {
		return Connect(ctx, address)
	}
	fd, err := strconv.Atoi(number)
	if err != nil || fd < 0 || strconv.Itoa(fd) != number {
		return nil, errors.New("the address " + strconv.Quote(address) + " is neither a path nor fd:N")
	}
	return connectOver(ctx, fd)
}
