package egress

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/textproto"
	"time"

	"golang.org/x/sys/unix"
)

// upstream is the connection to a server.
type upstream struct {
	conn net.Conn
	in   *bufio.Reader // on it; nil while it's quiet
}

// reader is what is read from the server.
func (u *upstream) reader() *bufio.Reader {
	if u.in == nil {
		u.in = borrow(u.conn)
	}
	return u.in
}

// response reads the head of a response to a request with a method; the body stays where it is. However long a server waits, what it
// has said of a head must be whole in a while, and room be found for a long one: it's read before anything is made of it.
func (u *upstream) response(method string, patience time.Duration, room func() error) (*http.Response, error) {
	if _, err := u.reader().Peek(1); err != nil {
		return nil, err
	}
	_ = u.conn.SetReadDeadline(time.Now().Add(patience))
	raw, err := u.head(room)
	_ = u.conn.SetReadDeadline(time.Time{})
	if errors.Is(err, errTooLong) {
		return nil, errReply(err.Error())
	}
	if err != nil {
		return nil, err
	}
	r := borrow(bytes.NewReader(raw))
	defer giveBack(r)
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return nil, errReply(err.Error())
	}
	if resp.Body != http.NoBody {
		resp.Body = nil // it would be of the head alone
	}
	return resp, nil
}

// errReply is what is wrong with a server's answer, of which the client has got nothing yet.
type errReply string

func (e errReply) Error() string {
	return "the server's answer isn't one that can be passed on: " + string(e)
}

// head reads lines up to an empty one.
func (u *upstream) head(room func() error) ([]byte, error) {
	raw, err := readHead(u.in, room)
	if err == nil && bytes.Count(raw, []byte("\n")) > maxFields+2 {
		err = errTooLong
	}
	return raw, err
}

// trailer reads the header fields after a chunked body.
func (u *upstream) trailer() (http.Header, error) {
	raw, err := u.head(func() error { return nil })
	if err != nil {
		return nil, err
	}
	r := borrow(bytes.NewReader(raw))
	defer giveBack(r)
	h, err := textproto.NewReader(r).ReadMIMEHeader()
	return http.Header(h), err
}

// heard says whether something was read already that nobody has taken.
func (u *upstream) heard() bool { return u.in != nil && u.in.Buffered() > 0 }

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
