package egress

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"
)

// early is a connection to the server that is made before the client sends, so that servers that send first work. The side that sends first
// determines the decision.
type early struct {
	cancel   context.CancelFunc
	dialed   chan struct{}
	waitDone chan struct{} // the wait for the server has ended
	up       *upstream     // valid after dialed
	err      error

	mu                   sync.Mutex
	serverFirst, decided bool // the server sent first; the client has sent
}

// dialEarly connects to the server. It ends the wait for the client when the server has sent, ended, or can't be reached.
func (c *conn) dialEarly() {
	ctx, cancel := context.WithCancel(c.ctx)
	e := &early{cancel: cancel, dialed: make(chan struct{}), waitDone: make(chan struct{})}
	begun := *c // a copy: serve may change the policy of c meanwhile
	c.early = e
	c.s.running.Go(func() {
		defer close(e.waitDone)
		e.up, e.err = begun.dial(ctx)
		close(e.dialed)
		if e.err == nil && !e.up.hasBuffered() && errors.Is(waitReadable(e.up.conn), os.ErrDeadlineExceeded) {
			return // by use
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if !e.decided {
			e.serverFirst = true
			_ = c.conn.SetReadDeadline(time.Now())
		}
	})
}

// serverSpokeFirst reports whether the server has sent before the client. e may be nil.
func (e *early) serverSpokeFirst() bool {
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.decided = true
	return e.serverFirst
}

// use returns the connection as if it were new.
func (e *early) use() (*upstream, error) {
	<-e.dialed
	defer e.cancel()
	if e.err != nil {
		return nil, e.err
	}
	_ = e.up.conn.SetReadDeadline(time.Now())
	<-e.waitDone
	_ = e.up.conn.SetReadDeadline(time.Time{})
	return e.up, nil
}

// discard closes the connection unused.
func (e *early) discard() {
	e.cancel()
	if <-e.dialed; e.err == nil {
		e.up.close()
	}
	<-e.waitDone
}
