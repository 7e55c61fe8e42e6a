package metrics

import (
	"net"
	"net/http"
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

// InTurn answers one request after the other, so that who asks doesn't hold up what is asked about. So many may wait: one more is told to ask
// again, and one that has gone isn't answered.
func InTurn(h http.Handler, n int) http.Handler {
	places, turn := make(chan struct{}, n), make(chan struct{}, 1)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case places <- struct{}{}:
			defer func() { <-places }()
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
