package egress

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// Copying through memory in large pieces is faster than splice(2) between two TCP connections wherever that was measured (Linux
// 6.18, loopback): splice moves single pages. It takes no descriptors either.
const (
	smallRoom = 32 << 10
	largeRoom = 1 << 20
	maxLarge  = 8 // buffers
)

// Buffers, of which a connection has one only while something is on its way.
var (
	smallBuffers = sync.Pool{New: func() any { b := make([]byte, smallRoom); return &b }}
	largeBuffers = make(chan *[]byte, maxLarge)
)

func init() {
	for range maxLarge {
		largeBuffers <- nil // made when it's needed
	}
}

// getBuffer is a large buffer for bulk while there are some, or else a small one.
func getBuffer(bulk bool) *[]byte {
	if bulk {
		select {
		case b := <-largeBuffers:
			if b == nil {
				b = new([]byte)
				*b = make([]byte, largeRoom)
			}
			return b
		default:
		}
	}
	return smallBuffers.Get().(*[]byte)
}

func putBuffer(b *[]byte) {
	if len(*b) == largeRoom {
		largeBuffers <- b
		return
	}
	smallBuffers.Put(b)
}

// relay copies one direction until it ends, and says to the other side how it ended: an end is an end there too, a broken connection is broken.
func relay(dst, src net.Conn) {
	err := transfer(dst, src, -1)
	if err == nil {
		if c, ok := dst.(interface{ CloseWrite() error }); ok && c.CloseWrite() == nil {
			return
		}
	}
	for _, c := range []net.Conn{dst, src} {
		if t, ok := c.(*net.TCPConn); ok && err != nil {
			_ = t.SetLinger(0)
		}
		c.Close()
	}
}

// transfer copies n bytes, or with a negative n all there are.
func transfer(dst io.Writer, src net.Conn, n int64) error {
	for bulk := false; n != 0; {
		b, got, err := await(src, bulk, n)
		if err == nil && got == 0 {
			err = io.EOF
		}
		if err == nil {
			_, err = dst.Write((*b)[:got])
		}
		if b != nil {
			putBuffer(b)
		}
		switch {
		case errors.Is(err, io.EOF) && n < 0:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		}
		bulk = got >= smallRoom
		if n > 0 {
			n -= int64(got)
		}
	}
	return nil
}

// await waits for something to read and reads at most most bytes of it. Until something comes a TCP connection holds no buffer.
func await(src net.Conn, bulk bool, most int64) (b *[]byte, n int, err error) {
	t, ok := src.(*net.TCPConn)
	if !ok {
		b = getBuffer(false)
		n, err = src.Read(upTo(b, most))
		return b, n, err
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return nil, 0, err
	}
	wait := raw.Read(func(fd uintptr) bool {
		b = getBuffer(bulk)
		if n, err = retry(func() (int, error) { return unix.Read(int(fd), upTo(b, most)) }); !errors.Is(err, unix.EAGAIN) {
			return true
		}
		putBuffer(b)
		b = nil
		return false
	})
	if wait != nil {
		return b, 0, wait
	}
	return b, n, os.NewSyscallError("read", err)
}

func upTo(b *[]byte, most int64) []byte {
	if most < 0 || most > int64(len(*b)) {
		return *b
	}
	return (*b)[:most]
}

func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
