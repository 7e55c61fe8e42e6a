package metrics

import (
	"net"
	"sync"
)

// Few is a listener of which so many connections are open at a time: the others wait.
func Few(l net.Listener, n int) net.Listener { return &few{Listener: l, room: make(chan struct{}, n)} }

// few is a listener that accepts so many at a time.
type few struct {
	net.Listener
	room chan struct{}
}

// Accept waits for room, and for the next one.
func (f *few) Accept() (net.Conn, error) {
	f.room <- struct{}{}
	c, err := f.Listener.Accept()
	if err != nil {
		<-f.room
		return nil, err
	}
	return &leaving{Conn: c, leave: sync.OnceFunc(func() { <-f.room })}, nil
}

// leaving is a connection that makes room when it's closed.
type leaving struct {
	net.Conn
	leave func()
}

// Close closes it.
func (l *leaving) Close() error {
	l.leave()
	return l.Conn.Close()
}
