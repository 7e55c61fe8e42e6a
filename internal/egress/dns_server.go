package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/toolguard/toolguard/internal/egress/dns"
	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort = 53
	// maxQuery is the longest question that is read. None needs more.
	maxQuery = 1500
	// idleDNS is how long a TCP connection for DNS may be quiet.
	idleDNS = 10 * time.Second
)

// reply is the answer to a message, nil when it deserves none.
func (s *Server) reply(ctx context.Context, msg []byte, from client, tcp bool) []byte {
	q, err := dns.ParseQuery(msg)
	if err != nil {
		s.now().refuseQuery(from, err)
	}
	if errors.Is(err, dns.ErrNoQuery) {
		return nil
	}
	s.queries.Add(1)
	a := dns.Answer{Code: dnsmessage.RCodeFormatError}
	if err == nil {
		a = s.now().resolve(ctx, &q, from)
	}
	size := q.Size
	if tcp {
		size = 1<<16 - 1
	}
	return a.Pack(&q, size)
}

// refuseQuery reports what isn't read as a question.
func (s *Server) refuseQuery(from client, err error) {
	s.deny(from.denial("dns"), decision{Verdict: mismatch, note: err.Error()}, "dns://")
}

// serveUDP answers datagrams. When everything is busy the next waits in the socket, and the kernel drops what is too much.
func (s *Server) serveUDP(ctx context.Context, c *net.UDPConn) error {
	listener := unmapped(c.LocalAddr())
	for {
		s.asking <- struct{}{}
		buf := make([]byte, maxQuery)
		n, from, err := c.ReadFromUDPAddrPort(buf)
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return errors.Join(ctx.Err(), err)
		case err != nil: // what was sent before couldn't be delivered
			<-s.asking
			continue
		}
		s.done.Go(func() {
			defer func() { <-s.asking }()
			at := netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
			by, err := s.Kernel.Sender(at, listener)
			if err != nil {
				return // another process's
			}
			if out := s.replyTo(ctx, buf[:n], client{at, by}); out != nil {
				_, _ = c.WriteToUDPAddrPort(out, from)
			}
		})
	}
}

// replyTo is the answer to a datagram. What comes from an address that isn't the machine's gets none: it would go to another host, with
// what the session says in it.
func (s *Server) replyTo(ctx context.Context, msg []byte, from client) []byte {
	if addr := from.at.Addr(); !addr.IsLoopback() && !s.Own(addr) {
		s.deny(from.denial("dns"), decision{Verdict: mismatch, note: "it's asked with an address that isn't this machine's"}, "dns://"+addr.String())
		return nil
	}
	return s.reply(ctx, msg, from, false)
}

// serveDNS answers the questions of a TCP connection, one after the other.
func (s *Server) serveDNS(ctx context.Context, c net.Conn, from client) {
	for {
		_ = c.SetDeadline(time.Now().Add(idleDNS))
		msg, err := dns.ReadFrame(c, maxQuery)
		if errors.Is(err, dns.ErrTooLong) {
			s.now().refuseQuery(from, err)
		}
		if err != nil {
			return
		}
		s.asking <- struct{}{}
		out := s.reply(ctx, msg, from, true)
		<-s.asking
		if out == nil {
			return
		}
		if _, err := c.Write(dns.Frame(out)); err != nil {
			return
		}
	}
}
