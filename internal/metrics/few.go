package metrics

import (
	"net"
	"slices"
	"sync"
)

// Few is a listener of which so many connections are open at a time: for one more, the oldest is closed. Who only holds them open keeps
// nobody else waiting.
func Few(l net.Listener, n int) net.Listener { return &few{Listener: l, most: n} }

type few struct {
	net.Listener
	most int

	mu   sync.Mutex
	open []*leaving // the oldest first
}

// Accept waits for the next one.
func (f *few) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l := &leaving{c, f}
	f.mu.Lock()
	f.open = append(f.open, l)
	oldest := f.open[0]
	over := len(f.open) > f.most
	f.mu.Unlock()
	if over {
		_ = oldest.Close()
	}
	return l, nil
}

// leaving is a connection that makes room when it's closed.
type leaving struct {
	net.Conn
	from *few
}

// Close closes it.
func (l *leaving) Close() error {
	l.from.mu.Lock()
	l.from.open = slices.DeleteFunc(l.from.open, func(c *leaving) bool { return c == l })
	l.from.mu.Unlock()
	return l.Conn.Close()
}
