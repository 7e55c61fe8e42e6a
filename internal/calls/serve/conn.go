package serve

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/api/http1"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// sending bounds the time in which a client must send a request, and in which it must read an answer.
const sending = 10 * time.Second

// last bounds the time in which a client must read an answer once the server is closed.
const last = time.Second

// longBody is the size from which on bodies are read a few at a time.
const longBody = 64 << 10

// conn is a connection of which the next request is read.
type conn struct {
	net   net.Conn
	s     *Server
	in    *bufio.Reader
	peer  identifier
	idles bool // it may wait without limit for a request
}

func newConn(s *Server, c net.Conn, peer identifier) *conn {
	return &conn{net: c, s: s, in: bufio.NewReaderSize(c, http1.MaxHead), peer: peer}
}

// Close ends the connection when the server is closed: no other request is read, and an answer that is due must be read soon.
func (c *conn) Close() error {
	_ = c.net.SetReadDeadline(time.Unix(1, 0))
	_ = c.net.SetWriteDeadline(time.Now().Add(last))
	return nil
}

// until sets a deadline of the connection, which Close has set for the last time.
func (c *conn) until(set func(time.Time) error, t time.Time) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if !c.s.ended {
		_ = set(t)
	}
}

// readUntil sets the time until which the client may send.
func (c *conn) readUntil(t time.Time) { c.until(c.net.SetReadDeadline, t) }

// next answers one request. It returns false if the connection is to be closed.
func (c *conn) next(began func()) bool {
	if c.idles {
		c.readUntil(time.Time{})
		_, err := c.in.Peek(1)
		began()
		if err != nil {
			return false
		}
	}
	c.readUntil(time.Now().Add(sending))
	head, err := http1.ReadHead(c.in)
	began()
	if err != nil {
		c.fail(err)
		return false
	}
	r := &Request{Method: head.Method, Path: head.Path, Query: head.Query}
	if r.Peer, err = c.peer(head); err != nil {
		c.fail(err)
		return false
	}
	release, err := c.readBody(r, head)
	if err != nil {
		release()
		c.fail(err)
		return false
	}
	status, body, gone := c.handle(r)
	release() // the client may take its time to read the answer
	end := head.Close || gone || c.s.ctx.Err() != nil
	return c.answer(status, body, end) && !end
}

// fail answers an error. A client that disconnects, or is too slow to send a head, gets no answer.
func (c *conn) fail(err error) {
	var e *http1.Error
	switch {
	case errors.As(err, &e):
		c.answer(e.Status, message.Failure{Error: e.Why}, true)
	case errors.Is(err, errSlow):
		c.answer(408, message.Failure{Error: errSlow.Error()}, true)
	}
}

var errSlow = fmt.Errorf("the request didn't arrive within %v", sending)

// readBody reads the body once the request is admitted. The caller releases it.
func (c *conn) readBody(r *Request, head *http1.Head) (release func(), err error) {
	release = func() {}
	if head.Length > api.MaxBody {
		return release, http1.Reject(413, "the request's body is too large: it may have %d bytes", api.MaxBody)
	}
	if head.Length > longBody {
		slots := c.s.long[0]
		if r.Peer.Confined {
			slots = c.s.long[1]
		}
		select {
		case slots <- struct{}{}:
			release = func() { <-slots }
		case <-c.s.ctx.Done():
			return release, ErrClosed
		case <-time.After(sending):
			return release, http1.Reject(503, "the most long requests that may be at a time are being answered: try again")
		}
		c.readUntil(time.Now().Add(sending))
	}
	if head.Length == 0 {
		return release, nil
	}
	if head.Expect && c.in.Buffered() == 0 {
		if !c.write([]byte("HTTP/1.1 100 Continue\r\n\r\n")) {
			return release, io.ErrClosedPipe
		}
	}
	r.Body = make([]byte, head.Length)
	if _, err = io.ReadFull(c.in, r.Body); errors.Is(err, os.ErrDeadlineExceeded) {
		if err = errSlow; c.s.ctx.Err() != nil {
			err = ErrClosed
		}
	}
	return release, err
}

// handle calls the handler, and cancels its context when the client disconnects.
func (c *conn) handle(r *Request) (status int, body any, gone bool) {
	ctx, cancel := context.WithCancel(c.s.ctx)
	defer cancel()
	c.readUntil(time.Time{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if c.disconnected() {
			gone = true
			cancel()
		}
	}()
	status, body = c.s.call(ctx, r)
	c.readUntil(time.Unix(1, 0))
	<-watched
	return status, body, gone
}

// disconnected waits until the client has, or the read deadline is over. What the client sends meanwhile is kept for the next request.
func (c *conn) disconnected() bool {
	for {
		_, err := c.in.Peek(c.in.Buffered() + 1)
		if err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
}

// call calls the handler. A panic is an error of this request alone.
func (s *Server) call(ctx context.Context, r *Request) (status int, body any) {
	defer func() {
		if p := recover(); p != nil {
			s.log(fmt.Sprintf("%s %s: panic: %v\n%s", r.Method, r.Path, p, debug.Stack()))
			status, body = 500, message.Failure{Error: "toolguard failed to answer: its output has the reason"}
		}
	}()
	return s.handler.Serve(ctx, r)
}

// answer sends an answer. It returns false if that fails.
func (c *conn) answer(status int, body any, last bool) bool {
	text, err := encode(body)
	if err != nil {
		c.s.log(fmt.Sprintf("encode an answer: %v", err))
		status, text = 500, []byte("{\"error\":\"toolguard failed to encode the answer\"}\n")
	}
	after := "keep-alive"
	if last {
		after = "close"
	}
	head := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: %s\r\n\r\n",
		status, reason(status), len(text), after)
	return c.write(append(head, text...))
}

func encode(body any) (text []byte, err error) {
	if body == nil {
		return []byte("{}\n"), nil
	}
	defer func() { // of a Marshaler
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	text, err = json.Marshal(body)
	return append(text, '\n'), err
}

func (c *conn) write(text []byte) bool {
	c.until(c.net.SetWriteDeadline, time.Now().Add(sending))
	_, err := c.net.Write(text)
	return err == nil
}

// reason is the text of a status, which clients show to people.
func reason(status int) string {
	switch status {
	case 200:
		return "OK"
	case 400:
		return "Bad Request"
	case 403:
		return "Forbidden"
	case 404:
		return "Not Found"
	case 409:
		return "Conflict"
	case 411:
		return "Length Required"
	case 413:
		return "Content Too Large"
	case 429:
		return "Too Many Requests"
	case 503:
		return "Service Unavailable"
	}
	return "Status"
}

// rejectConn answers a new connection without reading from it, and closes it. Nothing was sent to it, so this doesn't block.
func rejectConn(c net.Conn, status int, why string) {
	text, _ := encode(message.Failure{Error: why})
	_ = c.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", status, reason(status), len(text), text)
	_ = c.Close()
}
