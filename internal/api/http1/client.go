package http1

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
)

// Conn is a client's connection. It carries requests and their answers, one after the other.
type Conn struct {
	net.Conn
	In    *bufio.Reader // what was received
	Keep  bool          // the connection can be used for another request after this answer
	Began bool          // the answer has
}

// ErrAnswer is the error for an answer that isn't HTTP.
var ErrAnswer = errors.New("the answer isn't HTTP")

// NewConn returns a client's connection. keep asks the server to leave it open after an answer.
func NewConn(c net.Conn, keep bool) *Conn {
	return &Conn{Conn: c, In: bufio.NewReader(c), Keep: keep}
}

// Send sends a request.
func (c *Conn) Send(method, path string, body []byte) error {
	c.Began = false
	after := "close"
	if c.Keep {
		after = "keep-alive"
	}
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: toolguard\r\nConnection: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n", method, path, after, len(body))
	_, err := c.Write(append(head, body...))
	return err
}

// Answer reads the head of the answer. The body ends with io.EOF if it is complete, and with io.ErrUnexpectedEOF if it isn't.
func (c *Conn) Answer() (status int, body io.Reader, err error) {
	line, err := c.line()
	if err != nil {
		return 0, nil, err
	}
	c.Began = true
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	if status, err = strconv.Atoi(code); err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, nil, ErrAnswer
	}
	for {
		line, err := c.line()
		if err == nil && line == "" && body == nil {
			body, c.Keep = c.In, false // until the connection ends
		}
		if err != nil || line == "" {
			return status, body, err
		}
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.ToLower(key) {
		case "content-length":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil || n < 0 {
				return 0, nil, ErrAnswer
			}
			body = &sizedReader{c.In, n}
		case "transfer-encoding":
			body = &chunkedReader{c: c}
		case "connection":
			c.Keep = c.Keep && !strings.EqualFold(value, "close")
		}
	}
}

func (c *Conn) line() (string, error) {
	line, err := c.In.ReadSlice('\n')
	if err != nil {
		return "", unexpected(err)
	}
	return strings.TrimRight(string(line), "\r\n"), nil
}

// unexpected is the error for an answer that ends too early.
func unexpected(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	case errors.Is(err, bufio.ErrBufferFull):
		return ErrAnswer
	}
	return err
}

// sizedReader reads a body whose length is known.
type sizedReader struct {
	in   io.Reader
	left int64
}

func (r *sizedReader) Read(p []byte) (n int, err error) {
	if r.left == 0 {
		return 0, io.EOF
	}
	n, err = r.in.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err != nil {
		err = unexpected(err)
	}
	return n, err
}

// chunkedReader reads a chunked body.
type chunkedReader struct {
	c    *Conn
	left int64 // of the chunk at hand
	some bool  // there was one already
	err  error
}

func (r *chunkedReader) Read(p []byte) (n int, err error) {
	if r.err == nil && r.left == 0 {
		r.left, r.err = r.next()
	}
	if r.err != nil {
		return 0, r.err
	}
	n, err = r.c.In.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if err != nil {
		r.err = unexpected(err)
	}
	return n, r.err
}

// next reads a chunk's head, after the end of the chunk before.
func (r *chunkedReader) next() (int64, error) {
	if r.some {
		if line, err := r.c.line(); err != nil || line != "" {
			return 0, errors.Join(ErrAnswer, err)
		}
	}
	r.some = true
	line, err := r.c.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(line, 16, 64)
	switch {
	case err != nil || n < 0:
		return 0, ErrAnswer
	case n > 0:
		return n, nil
	}
	if line, err := r.c.line(); err != nil || line != "" {
		return 0, errors.Join(ErrAnswer, err)
	}
	return 0, io.EOF
}
