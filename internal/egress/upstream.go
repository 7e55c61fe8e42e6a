package egress

import (
	"bufio"
	"errors"
	"math"
	"net"
	"net/http"

	"golang.org/x/sys/unix"
)

// upstream is the connection to a server.
type upstream struct {
	conn net.Conn
	in   *bufio.Reader // on it; nil while it's quiet
	left int64         // how much of a head may still be read: the code that reads it has no bound of its own
}

// maxReply bounds the head of a response.
const maxReply = 256 << 10

func (u *upstream) Read(p []byte) (int, error) {
	if u.left <= 0 {
		return 0, errTooLong
	}
	n, err := u.conn.Read(p[:min(int64(len(p)), u.left)])
	u.left -= int64(n)
	return n, err
}

// reader is what is read from the server.
func (u *upstream) reader() *bufio.Reader {
	if u.in == nil {
		u.left = math.MaxInt64
		u.in = borrow(u)
	}
	return u.in
}

// response reads the head of a response to a request with a method.
func (u *upstream) response(method string) (*http.Response, error) {
	in := u.reader()
	u.left = maxReply
	resp, err := http.ReadResponse(in, &http.Request{Method: method})
	u.left = math.MaxInt64
	return resp, err
}

// rest gives the reader back, with what it held.
func (u *upstream) rest() []byte {
	b := drained(u.in)
	u.in = nil
	return b
}

// drained gives a reader back, nil too, with a copy of what it held.
func drained(r *bufio.Reader) []byte {
	if r == nil {
		return nil
	}
	held, _ := r.Peek(r.Buffered())
	b := append([]byte(nil), held...)
	giveBack(r)
	return b
}

// stale says whether a quiet connection has been closed by the other side, or speaks out of turn. That of TLS speaks now and then of itself.
func (u *upstream) stale() (is bool) {
	t, ok := u.conn.(*net.TCPConn)
	if !ok {
		return false
	}
	rc, err := t.SyscallConn()
	if err != nil {
		return true
	}
	err = rc.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		is = !errors.Is(err, unix.EAGAIN)
	})
	return is || err != nil
}

func (u *upstream) close() {
	u.conn.Close()
	u.rest()
}
