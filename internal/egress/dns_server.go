package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/egress/dns"
)

const (
	dnsPort = 53
	// maxQuerySize limits a query. None needs more.
	maxQuerySize = 1500
	// dnsIdleTimeout is for the next query on a TCP connection.
	dnsIdleTimeout = 10 * time.Second
)

// answer returns the answer to a message, or nil for none.
func (s *Server) answer(ctx context.Context, msg []byte, from client, tcp bool) []byte {
	q, err := dns.ParseQuery(msg)
	if err != nil {
		s.current().rejectQuery(from, err)
	}
	if errors.Is(err, dns.ErrNoQuery) {
		return nil
	}
	s.queries.Add(1)
	a := dns.Answer{Code: dnsmessage.RCodeFormatError}
	if err == nil {
		a = s.current().resolve(ctx, &q, from)
	}
	size := q.Size
	if tcp {
		size = 1<<16 - 1
	}
	return a.Pack(&q, size)
}

// rejectQuery reports a message that is no valid query.
func (s *Server) rejectQuery(from client, err error) {
	s.deny(from.denial("dns"), mismatch(err.Error()), "dns://")
}

// serveUDP answers datagrams. Under load datagrams wait in the socket, and the kernel drops the excess.
func (s *Server) serveUDP(ctx context.Context, c *net.UDPConn) error {
	listener := addrPortOf(c.LocalAddr())
	for {
		s.querySlots <- struct{}{}
		buf := make([]byte, maxQuerySize)
		n, from, err := c.ReadFromUDPAddrPort(buf)
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return errors.Join(ctx.Err(), err)
		case err != nil: // an earlier answer couldn't be delivered
			<-s.querySlots
			continue
		}
		s.running.Go(func() {
			defer func() { <-s.querySlots }()
			at := netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			by, err := s.Kernel.Sender(at, listener)
			if err != nil {
				return // not the session's
			}
			if out := s.answerDatagram(ctx, buf[:n], client{at, by}); out != nil {
				_, _ = c.WriteToUDPAddrPort(out, from)
			}
		})
	}
}

// answerDatagram answers a datagram. It answers none from a foreign address: the answer would carry the session's data to another host.
func (s *Server) answerDatagram(ctx context.Context, msg []byte, from client) []byte {
	if addr := from.addr.Addr(); !addr.IsLoopback() && !s.IsOwn(addr) {
		s.deny(from.denial("dns"), mismatch("the query's source address isn't this machine's"), "dns://"+addr.String())
		return nil
	}
	return s.answer(ctx, msg, from, false)
}

// serveDNS answers the queries of a TCP connection in order.
func (s *Server) serveDNS(ctx context.Context, c net.Conn, from client) {
	for {
		_ = c.SetDeadline(time.Now().Add(dnsIdleTimeout))
		msg, err := dns.ReadFrame(c, maxQuerySize)
		if errors.Is(err, dns.ErrTooLong) {
			s.current().rejectQuery(from, err)
		}
		if err != nil {
			return
		}
		s.querySlots <- struct{}{}
		out := s.answer(ctx, msg, from, true)
		<-s.querySlots
		if out == nil {
			return
		}
		if _, err := c.Write(dns.Frame(out)); err != nil {
			return
		}
	}
}
