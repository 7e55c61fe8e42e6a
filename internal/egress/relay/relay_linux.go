package relay

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Transfer copies n bytes, or everything if n is negative. Between two TCP connections the kernel moves the pages (splice), through a
// pipe that is reserved only while it has data: io.Copy would use one, with two descriptors, for every idle connection.
func Transfer(dst, src net.Conn, n int64) error {
	to, ok := dst.(*net.TCPConn)
	from, ok2 := src.(*net.TCPConn)
	if !ok || !ok2 {
		return transferMemory(dst, src, n)
	}
	return splice(to, from, n)
}

// pipe is the buffer between two sockets.
type pipe struct{ r, w int }

// pipeSize is the requested size of a pipe. An ordinary user with many pipes gets smaller ones.
const pipeSize = 1 << 20

// pipes has the unused pipes.
var pipes = make(chan pipe, 32)

func getPipe() (pipe, error) {
	select {
	case p := <-pipes:
		return p, nil
	default:
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return pipe{}, err
	}
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize)
	return pipe{fds[0], fds[1]}, nil
}

// put releases an empty pipe.
func (p pipe) put() {
	select {
	case pipes <- p:
	default:
		p.close()
	}
}

func (p pipe) close() {
	unix.Close(p.r)
	unix.Close(p.w)
}

func splice(dst, src *net.TCPConn, n int64) error {
	from, err := src.SyscallConn()
	if err != nil {
		return err
	}
	to, err := dst.SyscallConn()
	if err != nil {
		return err
	}
	for n != 0 {
		p, got, err := fill(from, n)
		switch {
		case err != nil:
			return err
		case got == 0 && n < 0:
			return nil
		case got == 0:
			return io.ErrUnexpectedEOF
		}
		if err := drain(to, p, got); err != nil {
			p.close() // it isn't empty
			return err
		}
		p.put()
		if n > 0 {
			n -= got
		}
	}
	return nil
}

// fill waits for data and moves at most limit bytes into a pipe, or any number if limit is negative. It returns 0 at the end of the
// stream.
func fill(from syscall.RawConn, limit int64) (p pipe, n int64, err error) {
	if limit < 0 || limit > pipeSize {
		limit = pipeSize
	}
	wait := from.Read(func(fd uintptr) bool {
		if p, err = getPipe(); err != nil {
			return true
		}
		n, err = move(int(fd), p.w, int(limit))
		if n <= 0 {
			p.put()
		}
		return !errors.Is(err, unix.EAGAIN)
	})
	if wait != nil {
		return p, 0, wait
	}
	return p, n, os.NewSyscallError("splice", err)
}

// drain moves n bytes out of a pipe.
func drain(to syscall.RawConn, p pipe, n int64) (err error) {
	for n > 0 && err == nil {
		wait := to.Write(func(fd uintptr) bool {
			var moved int64
			moved, err = move(p.r, int(fd), int(n))
			n -= max(moved, 0)
			if moved == 0 && err == nil {
				err = io.ErrShortWrite
			}
			return !errors.Is(err, unix.EAGAIN)
		})
		if wait != nil {
			return wait
		}
	}
	return os.NewSyscallError("splice", err)
}

func move(from, to, n int) (int64, error) {
	for {
		moved, err := unix.Splice(from, nil, to, nil, n, unix.SPLICE_F_MOVE|unix.SPLICE_F_NONBLOCK)
		if !errors.Is(err, unix.EINTR) {
			return moved, err
		}
	}
}
