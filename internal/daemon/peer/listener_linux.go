package peer

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Listener accepts connections whose peer it has identified, up to a number for each quota key at a time.
type Listener struct {
	*net.UnixListener
	MaxConnections func() int
	SessionOf      func(conn, pidfd int) (uint64, error)
	Subuid         string // the file of subordinate users, in subuid(5)'s format

	mu   sync.Mutex
	open map[QuotaKey]int
}

// Conn is a connection with its peer.
type Conn struct {
	*net.UnixConn
	peer    *Peer
	release func()
}

// Close closes the connection and releases its quota, once.
func (c *Conn) Close() error {
	c.release()
	return c.UnixConn.Close()
}

// Peer returns the process that made the connection.
func (c *Conn) Peer() *Peer { return c.peer }

// Detach releases the connection's quota without closing it. The caller bounds the number of such connections.
func (c *Conn) Detach() { c.release() }

const tooManyConnections = "this user has too many connections already"

// rejectConn answers a new connection without reading from it, and closes it. Its send buffer is empty, so the write doesn't block.
func rejectConn(c *net.UnixConn, why string) {
	_, _ = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nContent-Type: application/json\r\n\r\n{\"error\":%q}\n", why)
	_ = c.Close()
}

// Accept waits for the next connection that isn't rejected.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		c, err := l.AcceptUnix()
		if errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM) {
			time.Sleep(10 * time.Millisecond)
			continue
		}
		if err != nil {
			return nil, err
		}
		p, err := identify(c, l.SessionOf)
		if err != nil {
			rejectConn(c, fmt.Sprintf("the client can't be identified: %v", err))
			continue
		}
		why := tooManyConnections
		if err := rejectSubordinate(p.UID, l.Subuid); err != nil {
			why = err.Error()
		} else if l.acquire(p.QuotaKey()) {
			return &Conn{c, p, sync.OnceFunc(func() { l.release(p) })}, nil
		}
		p.Process.Close()
		rejectConn(c, why)
	}
}

func (l *Listener) acquire(k QuotaKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[k] >= l.MaxConnections() {
		return false
	}
	if l.open == nil {
		l.open = map[QuotaKey]int{}
	}
	l.open[k]++
	return true
}

func (l *Listener) release(p *Peer) {
	p.Process.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	k := p.QuotaKey()
	if l.open[k]--; l.open[k] == 0 {
		delete(l.open, k)
	}
}

// rejectSubordinate returns an error for a subordinate user ID of a user other than root. file is in subuid(5)'s format. root's ranges, as
// for LXD, belong to no user, and may overlap with real users.
func rejectSubordinate(uid int, file string) error {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if len(f) != 3 || f[0] == "root" || f[0] == "0" {
			continue
		}
		first, e := strconv.Atoi(f[1])
		n, err := strconv.Atoi(f[2])
		if e == nil && err == nil && first <= uid && uid-first < n {
			return fmt.Errorf("user %d is a subordinate user of %s (%s), for containers: connect as %s", uid, f[0], file, f[0])
		}
	}
	return nil
}
