package egress

import (
	"io"
	"net"
	"sync"
)

// copyBuffers are for what can't be spliced.
var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// plainRelay copies one direction through memory.
func plainRelay(dst, src net.Conn) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, *buf)
	ended(dst, src, err)
}

// ended tells the other side how a direction ended: an end is an end there too, a broken connection is broken.
func ended(dst, src net.Conn, err error) {
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
