package forward

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// maxIdle is how many connections of a session may wait for a request.
const maxIdle = 8

// Conn is what a session's toolguard has opened a connection by.
type Conn interface {
	net.Conn
	syscall.Conn
}

// conn is a connection that a session's toolguard has opened, on which toolguardd sends requests.
type conn struct {
	Conn
	in *bufio.Reader
}

// isOpen reports whether the session's toolguard hasn't closed the idle connection. Whatever it has sent without a request ends the connection.
func (c *conn) isOpen() bool {
	raw, err := c.SyscallConn()
	if err != nil || c.in.Buffered() > 0 {
		return false
	}
	open := false
	_ = raw.Control(func(fd uintptr) {
		_, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK|unix.MSG_DONTWAIT)
		open = errors.Is(err, unix.EAGAIN)
	})
	return open
}

// Conns are the connections that one session's toolguard has opened. The zero value has none.
type Conns struct {
	mu       sync.Mutex
	serves   bool // there was one
	closed   bool
	idle     []*conn
	arrived  chan struct{} // closed when one becomes idle; nil: nothing waits for that
	forwards [2]int        // requests of unconfined and of confined clients
}

// Add makes a new connection idle, or closes it: there are enough, or Close was called.
func (p *Conns) Add(c Conn) { p.add(&conn{c, bufio.NewReader(c)}) }

// add makes a connection idle, as Add does.
func (p *Conns) add(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	if p.closed || len(p.idle) >= maxIdle {
		_ = c.Close()
		return
	}
	p.serves = true
	p.idle = append(p.idle, c)
	if p.arrived != nil {
		close(p.arrived)
		p.arrived = nil
	}
}

// prune removes the idle connections that the session's toolguard has closed. The caller has locked mu.
func (p *Conns) prune() {
	open := p.idle[:0]
	for _, c := range p.idle {
		if c.isOpen() {
			open = append(open, c)
		} else {
			_ = c.Close()
		}
	}
	clear(p.idle[len(open):])
	p.idle = open
}

// IsFull reports whether there are as many idle connections as there may be.
func (p *Conns) IsFull() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.prune()
	return len(p.idle) >= maxIdle
}

// IsServed reports whether the session's toolguard has opened a connection.
func (p *Conns) IsServed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.serves
}

// take removes an idle connection, or waits for one until ctx is done.
func (p *Conns) take(ctx context.Context) (*conn, error) {
	for {
		p.mu.Lock()
		p.prune()
		if n := len(p.idle); n > 0 {
			c := p.idle[n-1]
			p.idle = p.idle[:n-1]
			p.mu.Unlock()
			return c, nil
		}
		if p.arrived == nil {
			p.arrived = make(chan struct{})
		}
		arrived := p.arrived
		p.mu.Unlock()
		select {
		case <-arrived:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Close closes the idle connections, and later ones: the session is over.
func (p *Conns) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		_ = c.Close()
	}
	p.idle = nil
}
