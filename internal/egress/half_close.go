package egress

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// watchClient closes the connection to the server when the client is gone, until it's stopped: a client that waits for a response in vain and gives
// up mustn't hold both for as long as the server likes.
func (k *httpConn) watchClient() (stop func()) {
	client, up, over := tcpOf(k.f.conn), k.up.conn, make(chan struct{})
	if client == nil {
		return func() {}
	}
	look := k.f.s.look
	timer := time.AfterFunc(look, func() {
		again := time.NewTicker(look)
		defer again.Stop()
		for got := nothingYet; !gone(client, &got); {
			select {
			case <-over:
				return
			case <-again.C:
			}
		}
		up.Close()
	})
	return sync.OnceFunc(func() {
		timer.Stop()
		close(over)
	})
}

// endHalf closes two connections of which one side has ended, and nothing has come on either for a while: nobody need ever end the other.
func (s *Server) endHalf(both <-chan struct{}, conns ...net.Conn) {
	again := time.NewTicker(s.half)
	defer again.Stop()
	for last := nothingYet; ; {
		select {
		case <-both:
			return
		case <-again.C:
		}
		now := uint64(0)
		for _, c := range conns {
			now += received(tcpOf(c))
		}
		if now == last {
			for _, c := range conns {
				c.Close()
			}
		}
		last = now
	}
}

// nothingYet is how much a client has got that wasn't looked at before.
const nothingYet = ^uint64(0)

// tcpOf is the TCP connection beneath one, nil if there's none.
func tcpOf(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case *tls.Conn:
		return tcpOf(c.NetConn())
	case *replay:
		return tcpOf(c.Conn)
	case *counted:
		return tcpOf(c.Conn)
	}
	return nil
}
