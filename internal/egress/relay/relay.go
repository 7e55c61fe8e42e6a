package relay

import (
	"io"
	"net"
	"sync"
)

// buffers are for transfers that aren't between two TCP connections.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// Copy copies one direction until it ends. It forwards an end of stream as one, and an error as a reset.
func Copy(dst, src net.Conn) {
	err := Transfer(dst, src, -1)
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

// transferMemory copies n bytes through memory, or everything if n is negative.
func transferMemory(dst io.Writer, src io.Reader, n int64) error {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	if n >= 0 {
		src = io.LimitReader(src, n)
	}
	// Bare interfaces: io.CopyBuffer would use ReadFrom and WriteTo instead of the buffer.
	done, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, *buf)
	if err == nil && n >= 0 && done < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}
