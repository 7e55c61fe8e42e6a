package http1

import (
	"errors"
	"io"
	"net"
	"testing"
)

// An answer whose body ends too early is an error, whatever its end is marked by.
func TestAnswers(t *testing.T) {
	for text, want := range map[string]struct {
		body string
		err  error
		keep bool
	}{
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc":                                     {"abc", nil, true},
		"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc":                {"abc", nil, false},
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":                                        {"", nil, true},
		"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabc":                                     {"abc", io.ErrUnexpectedEOF, true},
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n": {"abc", nil, true},
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n":                    {"ab", io.ErrUnexpectedEOF, true},
		"HTTP/1.1 200 OK\r\n\r\nabc":                                                          {"abc", nil, false},
		"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n":                                        {"", ErrAnswer, true},
		"SSH-2.0-x\r\n": {"", ErrAnswer, true},
	} {
		near, far := net.Pipe()
		go func() {
			_, _ = io.WriteString(far, text)
			_ = far.Close()
		}()
		c := NewConn(near, true)
		status, body, err := c.Answer()
		var got []byte
		if err == nil {
			got, err = io.ReadAll(body)
		}
		if string(got) != want.body || !errors.Is(err, want.err) || c.Keep != want.keep || err == nil && status != 200 {
			t.Errorf("%q: status %d, %q, %v, keep %t", text, status, got, err, c.Keep)
		}
		_ = near.Close()
	}
}
