package api

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
)

// exchange is a request and its answer on a connection, which the next request may reuse.
type exchange struct {
	conn        *net.UnixConn
	in          *bufio.Reader
	keep        bool
	began       bool        // the answer has
	interrupted atomic.Bool // see watch
}

var errAnswer = errors.New("toolguardd's answer isn't HTTP")

// request sends a request.
func (x *exchange) request(method, path string, body []byte) error {
	x.began = false
	after := "close"
	if x.keep {
		after = "keep-alive"
	}
	head := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: toolguard\r\nConnection: %s\r\nContent-Type: application/json\r\n"+
		"Content-Length: %d\r\n\r\n", method, path, after, len(body))
	_, err := x.conn.Write(append(head, body...))
	return err
}

// answer reads the head of the answer.
func (x *exchange) answer() (status int, body io.Reader, err error) {
	line, err := x.line()
	if err != nil {
		return 0, nil, err
	}
	x.began = true
	version, rest, _ := strings.Cut(line, " ")
	code, _, _ := strings.Cut(rest, " ")
	if status, err = strconv.Atoi(code); err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return 0, nil, errAnswer
	}
	for {
		line, err := x.line()
		if err == nil && line == "" && body == nil {
			body, x.keep = x.in, false // until the connection ends
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
				return 0, nil, errAnswer
			}
			body = io.LimitReader(x.in, n)
		case "transfer-encoding":
			body = &chunkedReader{x: x}
		case "connection":
			x.keep = x.keep && !strings.EqualFold(value, "close")
		}
	}
}

func (x *exchange) line() (string, error) {
	line, err := x.in.ReadSlice('\n')
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
		return errAnswer
	}
	return err
}

// chunkedReader reads a chunked body.
type chunkedReader struct {
	x    *exchange
	left int64 // of the chunk at hand
	some bool  // there was one already
	err  error
}

func (c *chunkedReader) Read(p []byte) (n int, err error) {
	if c.err == nil && c.left == 0 {
		c.left, c.err = c.next()
	}
	if c.err != nil {
		return 0, c.err
	}
	n, err = c.x.in.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	if err != nil {
		c.err = unexpected(err)
	}
	return n, c.err
}

// next reads a chunk's head, after the end of the chunk before.
func (c *chunkedReader) next() (int64, error) {
	if c.some {
		if line, err := c.x.line(); err != nil || line != "" {
			return 0, errors.Join(errAnswer, err)
		}
	}
	c.some = true
	line, err := c.x.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(line, 16, 64)
	switch {
	case err != nil || n < 0:
		return 0, errAnswer
	case n > 0:
		return n, nil
	}
	if line, err := c.x.line(); err != nil || line != "" {
		return 0, errors.Join(errAnswer, err)
	}
	return 0, io.EOF
}
