package egress

import (
	"bytes"
	"errors"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// protocol is the protocol that a client begins.
type protocol int

const (
	protocolRaw protocol = iota
	protocolTLS
	protocolHTTP
)

var (
	errNoData     = errors.New("the client sent nothing")
	errIncomplete = errors.New("the client's first line is incomplete")
)

// detectProtocol waits until the client's protocol is clear, or until the connection's deadline. It holds no buffer before the first byte.
func (c *conn) detectProtocol(rawAllowed bool) (protocol, error) {
	patience := c.s.helloTimeout
	if rawAllowed && !c.isWebPort() {
		patience = rawLineTimeout
	}
	if c.in != nil && c.in.Buffered() > 0 {
		return c.readProtocol(patience)
	}
	if err := waitReadable(c.conn); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return protocolRaw, errNoData
		}
		return protocolRaw, err
	}
	if c.in == nil {
		c.in = getReader(c.conn)
	}
	return c.readProtocol(patience)
}

// readProtocol reads until the first bytes show the protocol.
func (c *conn) readProtocol(patience time.Duration) (protocol, error) {
	_ = c.conn.SetReadDeadline(time.Now().Add(patience))
	for n := 1; ; n = c.in.Buffered() + 1 {
		_, err := c.in.Peek(n)
		b, _ := c.in.Peek(c.in.Buffered())
		if kind, sure := classify(b); sure || len(b) == c.in.Size() {
			return kind, nil
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return protocolRaw, errIncomplete
		case err != nil && len(b) > 0:
			return protocolRaw, nil // the client sends no more
		case err != nil:
			return protocolRaw, err
		}
	}
}

// classify returns the protocol of a connection's first bytes. A request line that is too long is left to the HTTP parser. Empty lines
// before a request line are skipped, as many servers skip them.
func classify(b []byte) (kind protocol, sure bool) {
	if len(b) == 0 {
		return protocolRaw, false
	}
	if b[0] == tlsHandshake {
		return protocolTLS, true
	}
	line, _, whole := bytes.Cut(bytes.TrimLeft(b, "\r\n"), []byte("\n"))
	method, _, spaced := bytes.Cut(line, []byte(" "))
	if len(method) > maxMethod || bytes.ContainsFunc(method, invalidMethodRune) || spaced && len(method) == 0 {
		return protocolRaw, true
	}
	if !whole {
		return protocolHTTP, false
	}
	words := bytes.Split(bytes.TrimRight(line, "\r"), []byte(" "))
	last := words[len(words)-1]
	if !spaced || !bytes.HasPrefix(last, []byte("HTTP/")) || bytes.Equal(last, []byte("HTTP/2.0")) {
		return protocolRaw, true
	}
	return protocolHTTP, true
}

// maxMethod is longer than every registered method.
const maxMethod = 24

func invalidMethodRune(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' && r != '_' }

// waitReadable returns when data can be read or the stream has ended. Only for a TCP connection does it wait without a buffer.
func waitReadable(c net.Conn) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	return rc.Read(readable)
}

// readable reports whether a socket has data, has ended, or has failed.
func readable(fd uintptr) bool {
	var b [1]byte
	_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	return !errors.Is(err, unix.EAGAIN)
}
