package egress

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// early is the connection to a server where anything may be said, made before the client says something: so that a server that speaks
// first is heard. Who speaks first says what's decided on.
type early struct {
	cancel  context.CancelFunc
	dialled chan struct{}
	over    chan struct{} // nobody waits for the server any more
	up      *upstream     // with dialled
	err     error

	mu          sync.Mutex
	spoke, late bool // the server did first, or can't any more
}

// reachEarly connects, and ends the wait for the client when the server has spoken, or ended, or can't be reached.
func (f *conn) reachEarly() {
	ctx, cancel := context.WithCancel(f.ctx)
	e := &early{cancel: cancel, dialled: make(chan struct{}), over: make(chan struct{})}
	begun := *f // of f itself the policy may be another one by the time that it's connected
	f.early = e
	f.s.done.Go(func() {
		defer close(e.over)
		e.up, e.err = begun.dial(ctx)
		close(e.dialled)
		if e.err == nil && !e.up.heard() && errors.Is(waitReadable(e.up.conn), os.ErrDeadlineExceeded) {
			return // of take
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if !e.late {
			e.spoke = true
			_ = f.conn.SetReadDeadline(time.Now())
		}
	})
}

// spokeFirst says whether the server did, or the client will have. It may be nil.
func (e *early) spokeFirst() bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.late = true
	return e.spoke
}

// take is the connection, as if it had just been made.
func (e *early) take() (*upstream, error) {
	<-e.dialled
	defer e.cancel()
	if e.err != nil {
		return nil, e.err
	}
	_ = e.up.conn.SetReadDeadline(time.Now())
	<-e.over
	_ = e.up.conn.SetReadDeadline(time.Time{})
	return e.up, nil
}

// drop ends it unused.
func (e *early) drop() {
	e.cancel()
	if <-e.dialled; e.err == nil {
		e.up.close()
	}
	<-e.over
}
