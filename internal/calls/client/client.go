// Package client sends requests of the calls API: to the process that began a session, or to toolguardd, which forwards them.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/api/http1"
	"github.com/toolguard/toolguard/internal/calls/socket"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 64 << 20

// sending bounds the time in which the server must accept a connection and read a request.
const sending = 10 * time.Second

// Client sends requests to one address. Several goroutines may use it.
type Client struct {
	Address string

	mu   sync.Mutex
	idle *http1.Conn // nil: none
}

// StatusError is an answer that isn't a success.
type StatusError struct {
	Status int
	Why    string
}

func (e *StatusError) Error() string { return e.Why }

// ErrNobody is the error if no process answers at an address: the session has ended.
var ErrNobody = errors.New("no process answers at the session's socket: the session has ended")

// Dial returns a client for an address, which is a path or fd:N, after it has connected once.
func Dial(ctx context.Context, address string) (*Client, error) {
	c := &Client{Address: address}
	x, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	c.idle = x
	return c, nil
}

func (c *Client) connect(ctx context.Context) (*http1.Conn, error) {
	short, cancel := context.WithTimeout(ctx, sending)
	defer cancel()
	conn, err := socket.Dial(short, c.Address)
	if err != nil {
		if isNobody(err) {
			err = fmt.Errorf("%w (%s)", ErrNobody, c.Address)
		}
		return nil, err
	}
	return http1.NewConn(conn, true), nil
}

// isNobody reports whether an address can't be connected to because no process is there.
func isNobody(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// Close closes the idle connection.
func (c *Client) Close() error {
	if x := c.takeIdle(); x != nil {
		return x.Close()
	}
	return nil
}

func (c *Client) takeIdle() (x *http1.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	x, c.idle = c.idle, nil
	return x
}

// Do sends a request and reads its answer into answer, which may be nil. It waits for the answer until ctx is done; then the server notices that
// the client has disconnected. The error is a *StatusError if the server has answered so, and ctx.Err() if ctx is done.
func (c *Client) Do(ctx context.Context, method, path string, body, answer any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return err
		}
		if len(text) > api.MaxBody {
			return fmt.Errorf("the request has %d bytes, and %d are the most that it may have", len(text), api.MaxBody)
		}
	}
	if x := c.takeIdle(); x != nil {
		err := c.exchange(ctx, x, method, path, text, answer)
		if err == nil || x.Began || ctx.Err() != nil {
			return err
		} // the server has closed it: it waits ten seconds for the next request
	}
	x, err := c.connect(ctx)
	if err != nil {
		return withContext(ctx, err)
	}
	return c.exchange(ctx, x, method, path, text, answer)
}

// exchange sends a request on a connection, which becomes idle or is closed.
func (c *Client) exchange(ctx context.Context, x *http1.Conn, method, path string, text []byte, answer any) error {
	_ = x.SetDeadline(time.Time{})
	stop := context.AfterFunc(ctx, func() { _ = x.SetDeadline(time.Unix(1, 0)) })
	_ = x.SetWriteDeadline(time.Now().Add(sending))
	if ctx.Err() != nil {
		_ = x.SetDeadline(time.Unix(1, 0))
	}
	sent := x.Send(method, path, text)
	err := read(x, sent, answer)
	if !stop() { // the answer came first, and the deadline may be in the past
		x.Keep = false
	}
	if (err == nil || isAnswer(err)) && x.Keep {
		c.mu.Lock()
		x, c.idle = c.idle, x // closes that of another request, if there is one
		c.mu.Unlock()
	}
	if x != nil {
		_ = x.Close()
	}
	return withContext(ctx, err)
}

// read reads an answer, also where the request couldn't be sent entirely: the server may have rejected it before its end.
func read(x *http1.Conn, sent error, answer any) error {
	status, in, err := x.Answer()
	if err != nil {
		return fmt.Errorf("ask the session's process: %w", errors.Join(sent, err))
	}
	text, err := io.ReadAll(io.LimitReader(in, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("read the answer of the session's process: %w", err)
	case len(text) > maxAnswer:
		x.Keep = false
		return fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case sent != nil:
		x.Keep = false
	}
	if status < 200 || status > 299 {
		var f message.Failure
		if json.Unmarshal(text, &f) != nil || f.Error == "" {
			f.Error = fmt.Sprintf("the session's process answered with status %d", status)
		}
		return &StatusError{status, f.Error}
	}
	if answer == nil {
		return nil
	}
	if err := json.Unmarshal(text, answer); err != nil {
		return fmt.Errorf("read the answer of the session's process: %w", err)
	}
	return nil
}

// withContext is ctx's error if ctx is why there is another one.
func withContext(ctx context.Context, err error) error {
	if err != nil && !isAnswer(err) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// isAnswer reports whether an error is the server's answer.
func isAnswer(err error) bool {
	var status *StatusError
	return errors.As(err, &status)
}

// Found is a session whose approvals are answered at an address.
type Found struct {
	Address string
	Session string
	Daemon  bool // toolguardd answers there: the session's id is in the query, "session"
}

// Sockets finds the sessions of the user whose approvals are answered: at the user's sockets, and for other ones of toolguardd's at its socket. The
// error is about folders that were rejected; the list has the others.
func Sockets(ctx context.Context, home string, getenv func(string) string) ([]Found, error) {
	return sockets(ctx, socket.Folders(home, getenv), api.Socket)
}

func sockets(ctx context.Context, folders []string, daemon string) (all []Found, err error) {
	paths, err := socket.List(folders)
	known := map[string]bool{}
	for _, path := range paths {
		session := strings.TrimSuffix(filepath.Base(path), socket.Suffix)
		all = append(all, Found{Address: path, Session: session})
		known[session] = true
	}
	if _, e := os.Lstat(daemon); e != nil {
		return all, err
	}
	short, cancel := context.WithTimeout(ctx, sending)
	defer cancel()
	c := Client{Address: daemon}
	defer c.Close()
	var sessions []api.Session
	if c.Do(short, "GET", api.Sessions, nil, &sessions) != nil {
		return all, err // this user may not ask, or it is stopping: its users have sockets of their own
	}
	for _, s := range sessions {
		if s.Calls && !known[s.ID] {
			all = append(all, Found{daemon, s.ID, true})
		}
	}
	return all, err
}
