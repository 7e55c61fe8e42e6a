package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/toolguard/toolguard/internal/api/http1"
)

// exchange is a request and its answer on a connection, which the next request may reuse.
type exchange struct {
	*http1.Conn
	interrupted atomic.Bool // see watch
	quiet       bool
}

// Client asks the toolguardd that listens on a socket.
type Client struct {
	Socket    string
	KeepAlive bool // the connection of a request that is answered is the next one's, too: for a client that sends several at a time
	Quiet     bool // Slow isn't called: nobody waits

	mu           sync.Mutex
	idleExchange *exchange // nil: there is none
}

// ErrNotRunning is the error if there is no toolguardd.
var ErrNotRunning = errors.New("toolguardd isn't running: root starts it ('systemctl start toolguardd')")

// ErrNotPermitted is the error if this user may not connect to toolguardd.
var ErrNotPermitted = errors.New("this user may not ask toolguardd: root and the members of the group toolguard may (sudo usermod -aG toolguard USER, and log in again)")

// StatusError is an answer with an error status.
type StatusError struct {
	Status int
	Why    string
}

func (r *StatusError) Error() string { return "toolguardd: " + r.Why }

// The timeout for an answer that needs no waiting. toolguardd may have to start and load the programs first.
const patience = 2 * time.Minute

// slowTime is the time after which Slow is called.
const slowTime = 4 * time.Second

// Slow, if set, is called when toolguardd hasn't answered for slowTime. A signal on the returned channel ends the wait.
var Slow func() <-chan os.Signal

// ErrInterrupted is the error after a signal ended the waiting for an answer.
var ErrInterrupted = errors.New("toolguardd didn't answer, and the waiting for it was ended")

var errSlow = errors.New("toolguardd doesn't answer")

// watch calls Slow when the answer is slow, until the returned function is called.
func (x *exchange) watch() (stop func()) {
	if Slow == nil || x.quiet {
		return func() {}
	}
	done := make(chan struct{})
	slow := time.AfterFunc(slowTime, func() {
		select {
		case <-Slow():
			x.interrupted.Store(true)
			_ = x.SetDeadline(time.Unix(1, 0))
		case <-done:
		}
	})
	return func() {
		slow.Stop()
		close(done)
	}
}

func (c *Client) dial() (*exchange, error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: c.Socket, Net: "unix"})
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED):
		return nil, fmt.Errorf("%w; nothing listens on %s", ErrNotRunning, c.Socket)
	case errors.Is(err, fs.ErrPermission):
		return nil, ErrNotPermitted
	case err != nil:
		return nil, fmt.Errorf("ask toolguardd: %w", err)
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	return &exchange{Conn: http1.NewConn(conn, c.KeepAlive), quiet: c.Quiet}, nil
}

// takeIdle returns the idle connection, which belongs to the caller then, or nil.
func (c *Client) takeIdle() *exchange {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := c.idleExchange
	c.idleExchange = nil
	if x != nil {
		_ = x.SetDeadline(time.Now().Add(patience))
	}
	return x
}

// release reads the rest of an answer and makes its connection idle, or closes it.
func (c *Client) release(s *Stream) {
	if s.x.Keep {
		if _, err := io.Copy(io.Discard, s.body); err == nil {
			c.mu.Lock()
			s.x, c.idleExchange = c.idleExchange, s.x // closes the connection of another request, if there is one
			c.mu.Unlock()
		}
	}
	if s.x != nil {
		_ = s.Close()
	}
}

// Do makes a request and reads its answer into answer, which may be nil.
func (c *Client) Do(method, path string, body, answer any) error {
	s, err := c.stream(method, path, body)
	if err != nil {
		return err
	}
	_ = s.x.SetReadDeadline(time.Now().Add(patience))
	defer s.x.watch()()
	if answer != nil {
		if err := s.Next(answer); err != nil {
			_ = s.Close()
			return fmt.Errorf("read toolguardd's answer: %w", err)
		}
	}
	c.release(s)
	return nil
}

// Follow makes a request with an unlimited answer.
func (c *Client) Follow(path string) (*Stream, error) { return c.stream("GET", path, nil) }

// Hijack makes a request whose connection is no longer HTTP afterwards: see Stream.Conn.
func (c *Client) Hijack(method, path string) (*Stream, error) { return c.stream(method, path, nil) }

// Upgrade makes a request and returns its connection, which is no longer HTTP. The connection is blocking, as other programs expect.
func (c *Client) Upgrade(method, path string) (*os.File, error) {
	s, err := c.stream(method, path, nil)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	f, err := s.x.Conn.Conn.(*net.UnixConn).File()
	if err != nil {
		return nil, err
	}
	return f, syscall.SetNonblock(int(f.Fd()), false)
}

func (c *Client) stream(method, path string, body any) (*Stream, error) {
	var text []byte
	if body != nil {
		var err error
		// Faster than encoding/json for a policy, whose text that package reads once more.
		if text, err = jsonv2.Marshal(body, jsonv1.DefaultOptionsV1()); err != nil {
			return nil, err
		}
	}
	if x := c.takeIdle(); x != nil {
		s, err := x.stream(x.Send(method, path, text))
		if x.Began || err == nil || errors.Is(err, ErrInterrupted) || errors.Is(err, errSlow) {
			return s, err
		} // toolguardd has closed it: it waits ten seconds for the next request
	}
	x, err := c.dial()
	if err != nil {
		return nil, err
	}
	return x.stream(x.Send(method, path, text))
}

// stream begins to read an answer. toolguardd may reject a request and close before it has read it all, so the answer is
// read even where sending the request failed.
func (x *exchange) stream(sent error) (*Stream, error) {
	stop := x.watch()
	status, body, err := x.Answer()
	stop()
	if err != nil {
		_ = x.Close()
		switch {
		case x.interrupted.Load():
			return nil, ErrInterrupted
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errSlow
		}
		return nil, fmt.Errorf("ask toolguardd: %w", errors.Join(sent, err))
	}
	if status >= 300 {
		defer x.Close()
		var f Failure
		if err := json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&f); err != nil || f.Error == "" {
			f.Error = fmt.Sprintf("it answered with status %d", status)
		}
		return nil, &StatusError{status, f.Error}
	}
	_ = x.SetDeadline(time.Time{})
	return &Stream{x: x, body: body, values: json.NewDecoder(body)}, nil
}

// Stream is an answer that isn't complete yet.
type Stream struct {
	x      *exchange
	body   io.Reader
	values *json.Decoder
}

// Next reads the next value. io.EOF: there are no more.
func (s *Stream) Next(v any) error { return s.values.Decode(v) }

// Begin reads the first record of Denials, which is sent with the answer.
func (s *Stream) Begin() (*Begin, error) {
	_ = s.x.SetReadDeadline(time.Now().Add(patience))
	var r Record
	err := s.Next(&r)
	if err == nil && (r.Begin == nil || r.Begin.Name == "" || len(r.Begin.Name) > maxThreadName) {
		err = errors.New("it doesn't name the session: it's of another version")
	}
	if err != nil {
		return nil, fmt.Errorf("read toolguardd's answer: %w", err)
	}
	return r.Begin, s.x.SetReadDeadline(time.Time{})
}

// maxThreadName is how long a thread's name can be (TASK_COMM_LEN).
const maxThreadName = 15

// Send sends a byte, for an answer that depends on it.
func (s *Stream) Send() error {
	_, err := s.x.Write([]byte{'\n'})
	return err
}

// Conn returns the connection of an answer that is no longer HTTP. What was received with the answer is read first.
func (s *Stream) Conn() net.Conn { return &upgraded{s.x.Conn.Conn, s.body} }

// upgraded is a connection of which a part was read already.
type upgraded struct {
	net.Conn
	in io.Reader
}

func (u *upgraded) Read(p []byte) (int, error) { return u.in.Read(p) }

// Body returns the unparsed answer, for a caller that doesn't use Next.
func (s *Stream) Body() io.Reader { return s.body }

// Close closes the connection.
func (s *Stream) Close() error { return s.x.Close() }
