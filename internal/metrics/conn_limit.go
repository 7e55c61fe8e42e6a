package metrics

import (
	"net"
	"net/http"
	"slices"
	"sync"
)

// LimitConns returns a listener with at most n open connections. One more closes the oldest, so that idle connections don't block
// others.
func LimitConns(l net.Listener, n int) net.Listener { return &connLimit{Listener: l, max: n} }

type connLimit struct {
	net.Listener
	max int

	mu   sync.Mutex
	open []*limitedConn // the oldest first
}

// Accept waits for the next connection.
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

// limitedConn is a connection that is uncounted when it is closed.
type limitedConn struct {
	net.Conn
	listener *connLimit
}

// Close closes the connection.
func (l *limitedConn) Close() error {
	l.listener.mu.Lock()
	l.listener.open = slices.DeleteFunc(l.listener.open, func(c *limitedConn) bool { return c == l })
	l.listener.mu.Unlock()
	return l.Conn.Close()
}

// Serialize handles one request at a time, so that clients don't slow down what is measured. At most n requests wait: a further one
// gets 503. A request whose client has gone isn't handled.
func Serialize(h http.Handler, n int) http.Handler {
	waiting, turn := make(chan struct{}, n), make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case waiting <- struct{}{}:
			defer func() { <-waiting }()
		default:
			http.Error(w, "too many requests at a time", http.StatusServiceUnavailable)
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
