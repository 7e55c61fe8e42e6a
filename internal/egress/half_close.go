package egress

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// watchClient closes the connection to the server when the client has gone, until it is stopped. Otherwise a slow server could keep both
// open.
func (hc *httpConn) watchClient() (stop func()) {
	client, up, stopped := tcpOf(hc.c.conn), hc.up.conn, make(chan struct{})
	if client == nil {
		return func() {}
	}
	look := hc.c.s.clientCheckInterval
	timer := time.AfterFunc(look, func() {
		ticker := time.NewTicker(look)
		defer ticker.Stop()
		for got := neverChecked; !clientGone(client, &got); {
			select {
			case <-stopped:
				return
			case <-ticker.C:
			}
		}
		up.Close()
	})
	return sync.OnceFunc(func() {
		timer.Stop()
		close(stopped)
	})
}

// closeIdleHalf closes two connections of which one side has ended, when nothing has arrived on either for a while.
func (s *Server) closeIdleHalf(done <-chan struct{}, conns ...net.Conn) {
	ticker := time.NewTicker(s.halfCloseTimeout)
	defer ticker.Stop()
	for last := neverChecked; ; {
		select {
		case <-done:
			return
		case <-ticker.C:
		}
		now := uint64(0)
		for _, c := range conns {
			now += bytesReceived(tcpOf(c))
		}
		if now == last {
			for _, c := range conns {
				c.Close()
			}
		}
		last = now
	}
}

// neverChecked is the count of a client that wasn't checked before.
const neverChecked = ^uint64(0)

// tcpOf returns the TCP connection under a connection, or nil.
func tcpOf(c net.Conn) *net.TCPConn {
	switch c := c.(type) {
	case *net.TCPConn:
		return c
	case *tls.Conn:
		return tcpOf(c.NetConn())
	case *replayConn:
		return tcpOf(c.Conn)
	case *budgetConn:
		return tcpOf(c.Conn)
	}
	return nil
}
