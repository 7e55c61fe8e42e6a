package egress

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/http"
	"net/textproto"
	"time"
)

// upstream is a connection to a server.
type upstream struct {
	conn net.Conn
	in   *bufio.Reader // on conn; nil while idle
}

// reader returns the buffered reader of the connection.
func (u *upstream) reader() *bufio.Reader {
	if u.in == nil {
		u.in = getReader(u.conn)
	}
	return u.in
}

// response reads the head of a response and leaves the body unread. A server may wait for as long as it likes, but a head that has begun
// must be complete within timeout, and reserve must allow a long one.
func (u *upstream) response(method string, patience time.Duration, reserve func() error) (*http.Response, error) {
	if _, err := u.reader().Peek(1); err != nil {
		return nil, err
	}
	_ = u.conn.SetReadDeadline(time.Now().Add(patience))
	raw, err := u.head(reserve)
	_ = u.conn.SetReadDeadline(time.Time{})
	if errors.Is(err, errTooLong) {
		return nil, errResponse(err.Error())
	}
	if err != nil {
		return nil, err
	}
	r := getReader(bytes.NewReader(raw))
	defer putReader(r)
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return nil, errResponse(err.Error())
	}
	if resp.Body != http.NoBody {
		resp.Body = nil // it would read from the head alone
	}
	return resp, nil
}

// errResponse is an error in a server's response of which the client has received nothing.
type errResponse string

func (e errResponse) Error() string {
	return "the server's response can't be forwarded: " + string(e)
}

// head reads lines up to an empty one.
func (u *upstream) head(reserve func() error) ([]byte, error) {
	raw, err := readHead(u.in, reserve)
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
	r := getReader(bytes.NewReader(raw))
	defer putReader(r)
	h, err := textproto.NewReader(r).ReadMIMEHeader()
	return http.Header(h), err
}

// hasBuffered reports whether unread bytes are in the buffer.
func (u *upstream) hasBuffered() bool { return u.in != nil && u.in.Buffered() > 0 }

// drainReader releases a reader, if there is one, and returns the bytes in it.
func drainReader(r **bufio.Reader) []byte {
	if *r == nil {
		return nil
	}
	buffered, _ := (*r).Peek((*r).Buffered())
	b := bytes.Clone(buffered)
	putReader(*r)
	*r = nil
	return b
}

// isStale reports whether the server has closed an idle connection or sent data unasked. TLS servers send data at any time.
func (u *upstream) isStale() (is bool) {
	t, ok := u.conn.(*net.TCPConn)
	if !ok {
		return false
	}
	rc, err := t.SyscallConn()
	if err != nil {
		return true
	}
	err = rc.Control(func(fd uintptr) {
		is = readable(fd)
	})
	return is || err != nil
}

func (u *upstream) close() {
	u.conn.Close()
	drainReader(&u.in)
}
