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

// protocol is what a client begins to speak.
type protocol int

const (
	protocolRaw protocol = iota
	protocolTLS
	protocolHTTP
)

var (
	errSilent = errors.New("it says nothing")
	errSlow   = errors.New("it doesn't finish what it says")
)

// listen waits until it's clear what the client speaks, or until the connection's deadline if it says nothing. It holds no buffer before the first byte.
func (f *conn) listen(rawFits bool) (protocol, error) {
	patience := f.s.hello
	if rawFits && !f.web() {
		patience = lineTime
	}
	if f.in != nil && f.in.Buffered() > 0 {
		return f.recognize(patience)
	}
	if err := waitReadable(f.conn); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return protocolRaw, errSilent
		}
		return protocolRaw, err
	}
	if f.in == nil {
		f.in = borrow(f.conn)
	}
	return f.recognize(patience)
}

// recognize reads until the beginning says what it is.
func (f *conn) recognize(patience time.Duration) (protocol, error) {
	_ = f.conn.SetReadDeadline(time.Now().Add(patience))
	for n := 1; ; n = f.in.Buffered() + 1 {
		_, err := f.in.Peek(n)
		b, _ := f.in.Peek(f.in.Buffered())
		if kind, sure := recognize(b); sure || len(b) == f.in.Size() {
			return kind, nil
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return protocolRaw, errSlow
		case err != nil && len(b) > 0:
			return protocolRaw, nil // it ends here, whatever it was
		case err != nil:
			return protocolRaw, err
		}
	}
}

// recognize says what a beginning is the beginning of. Too long a line of a request is left to who reads requests, and so are empty lines
// before one, which many servers pass over.
func recognize(b []byte) (kind protocol, sure bool) {
	if len(b) == 0 {
		return protocolRaw, false
	}
	if b[0] == tlsHandshake {
		return protocolTLS, true
	}
	line, _, whole := bytes.Cut(bytes.TrimLeft(b, "\r\n"), []byte("\n"))
	method, _, spaced := bytes.Cut(line, []byte(" "))
	if len(method) > maxMethod || bytes.ContainsFunc(method, notMethod) || spaced && len(method) == 0 {
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

func notMethod(r rune) bool { return (r < 'A' || r > 'Z') && r != '-' && r != '_' }

// waitReadable returns when something can be read, or the stream has ended. Only a TCP connection is waited for without a buffer.
func waitReadable(c net.Conn) error {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return nil
	}
	rc, err := sc.SyscallConn()
	if err != nil {
		return err
	}
	return rc.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		return !errors.Is(err, unix.EAGAIN)
	})
}
