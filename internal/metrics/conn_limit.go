package metrics

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// LimitConns is a listener of which so many connections are open at a time: for one more, the oldest is closed. Who only holds them open keeps
// nobody else waiting.
func LimitConns(l net.Listener, n int) net.Listener { return &connLimit{Listener: l, max: n} }

type connLimit struct {
	net.Listener
	max int

	mu   sync.Mutex
	open []*limitedConn // the oldest first
}

// Accept waits for the next one.
func (f *connLimit) Accept() (net.Conn, error) {
	c, err := f.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l := &limitedConn{c, f}
	f.mu.Lock()
	f.open = append(f.open, l)
	oldest := f.open[0]
	exceeded := len(f.open) > f.max
	f.mu.Unlock()
	if exceeded {
		_ = oldest.Close()
	}
	return l, nil
}

// limitedConn is a connection that makes room when it's closed.
type limitedConn struct {
	net.Conn
	listener *connLimit
}

// Close closes it.
func (l *limitedConn) Close() error {
	l.listener.mu.Lock()
	l.listener.open = slices.DeleteFunc(l.listener.open, func(c *limitedConn) bool { return c == l })
	l.listener.mu.Unlock()
	return l.Conn.Close()
}

// Serialize answers one request after the other, so that who asks doesn't hold up what is asked about. So many may wait: one more is told to ask
// again, and one that has gone isn't answered.
func Serialize(h http.Handler, n int) http.Handler {
	waiting, turn := make(chan struct{}, n), make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case waiting <- struct{}{}:
			defer func() { <-waiting }()
		default:
			http.Error(w, "too many ask at a time", http.StatusServiceUnavailable)
			return
		}
		select {
		case turn <- struct{}{}:
			defer func() { <-turn }()
			h.ServeHTTP(w, r)
		case <-r.Context().Done():
		}
	})
}
