package relay

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Transfer copies n bytes, or with a negative n all there are. Between two TCP connections the kernel moves the pages (splice),
// through a pipe that is held only while there's something in it: io.Copy would hold one, of two descriptors, for every
// quiet connection.
func Transfer(dst, src net.Conn, n int64) error {
	to, ok := dst.(*net.TCPConn)
	from, ok2 := src.(*net.TCPConn)
	if !ok || !ok2 {
		return transferMemory(dst, src, n)
	}
	return splice(to, from, n)
}

// pipe is the room between two sockets.
type pipe struct{ r, w int }

// pipeRoom is what a pipe is asked to hold; an ordinary user's gets less when there are many.
const pipeRoom = 1 << 20

// pipes are those not in use.
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
	_, _ = unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeRoom)
	return pipe{fds[0], fds[1]}, nil
}

// put takes back an empty pipe.
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
			p.close() // with what is still in it
			return err
		}
		p.put()
		if n > 0 {
			n -= got
		}
	}
	return nil
}

// fill waits for something to move and moves it into a pipe, at most so much if that isn't negative; nothing at the end of the stream.
func fill(from syscall.RawConn, most int64) (p pipe, n int64, err error) {
	if most < 0 || most > pipeRoom {
		most = pipeRoom
	}
	wait := from.Read(func(fd uintptr) bool {
		if p, err = getPipe(); err != nil {
			return true
		}
		n, err = move(int(fd), p.w, int(most))
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
