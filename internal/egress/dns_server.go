package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	dnsPort = 53
	// udpSize is what fits into a datagram on any path (DNS flag day 2020).
	udpSize = 1232
	// maxQuery is the longest question that is read. None needs more.
	maxQuery = 1500
	// idleDNS is how long a TCP connection for DNS may be quiet.
	idleDNS = 10 * time.Second
)

// question is a query of the session.
type question struct {
	id   uint16
	rd   bool
	edns bool
	size int // of the longest answer that the client takes by UDP
	dnsmessage.Question
}

var (
	errNoQuery  = errors.New("it's no query")
	errNotAsked = errors.New("it doesn't ask exactly one question")
	errTooLong  = errors.New("it's too long")
)

// parseQuestion reads a query. With errNotAsked its number is known, and it can be answered that it's wrong.
func parseQuestion(msg []byte) (q question, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || h.Response {
		return q, errNoQuery
	}
	q = question{id: h.ID, rd: h.RecursionDesired, size: 512}
	if h.OpCode != 0 || h.Truncated {
		return q, errNotAsked
	}
	if q.Question, err = p.Question(); err != nil {
		return q, errNotAsked
	}
	if _, err = p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, errNotAsked
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, errNotAsked
	}
	for {
		r, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return q, nil
		}
		if err != nil || p.SkipAdditional() != nil {
			return q, errNotAsked
		}
		if r.Type == dnsmessage.TypeOPT {
			q.edns = true
			q.size = min(max(512, int(r.Class)), udpSize)
		}
	}
}

// answer is what is said to a question: addresses of one family, or a code.
type answer struct {
	code  dnsmessage.RCode
	addrs []netip.Addr
	ttl   time.Duration
	why   string // of a refusal, in words
}

// ednsProhibited is the extended error "Prohibited" (RFC 8914, 4.19), and ednsError the option that carries one.
const (
	ednsError      = 15
	ednsProhibited = 18
)

// pack is the answer as a message of at most size bytes. Without a record of the zone's authority a negative answer isn't kept by
// anybody (RFC 2308, 5), so a policy that is widened counts at once.
func (a *answer) pack(q *question, size int) []byte {
	msg, err := a.build(q, a.addrs, false)
	if err == nil && len(msg) > size {
		msg, err = a.build(q, nil, true)
	}
	if err != nil {
		return nil
	}
	return msg
}

func (a *answer) build(q *question, addrs []netip.Addr, truncated bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: q.id, Response: true, RecursionDesired: q.rd, RecursionAvailable: true, RCode: a.code, Truncated: truncated})
	b.EnableCompression()
	err := b.StartQuestions()
	if q.Name.Length > 0 {
		err = errors.Join(err, b.Question(q.Question))
	}
	err = errors.Join(err, b.StartAnswers())
	h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: uint32(a.ttl / time.Second)}
	for _, addr := range addrs {
		if addr.Is4() {
			err = errors.Join(err, b.AResource(h, dnsmessage.AResource{A: addr.As4()}))
		} else {
			err = errors.Join(err, b.AAAAResource(h, dnsmessage.AAAAResource{AAAA: addr.As16()}))
		}
	}
	if q.edns {
		err = errors.Join(err, b.StartAdditionals(), a.edns(&b))
	}
	if err != nil {
		return nil, err
	}
	return b.Finish()
}

func (a *answer) edns(b *dnsmessage.Builder) error {
	var h dnsmessage.ResourceHeader
	var r dnsmessage.OPTResource
	err := h.SetEDNS0(udpSize, a.code, false)
	if a.why != "" {
		data := append(binary.BigEndian.AppendUint16(nil, ednsProhibited), a.why...)
		r.Options = []dnsmessage.Option{{Code: ednsError, Data: data}}
	}
	return errors.Join(err, b.OPTResource(h, r))
}

// reply is the answer to a message, nil when it deserves none.
func (s *Server) reply(ctx context.Context, msg []byte, from client, tcp bool) []byte {
	q, err := parseQuestion(msg)
	if err != nil {
		s.now().refuseQuery(from, err)
	}
	if errors.Is(err, errNoQuery) {
		return nil
	}
	s.queries.Add(1)
	a := answer{code: dnsmessage.RCodeFormatError}
	if err == nil {
		a = s.now().resolve(ctx, &q, from)
	}
	size := q.size
	if tcp {
		size = 1<<16 - 1
	}
	return a.pack(&q, size)
}

// refuseQuery tells what isn't read as a question.
func (s *Server) refuseQuery(from client, err error) {
	s.deny(from.denial("dns"), ruling{Verdict: mismatch, note: err.Error()}, "dns://")
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
				return // somebody else's
			}
			if out := s.replyTo(ctx, buf[:n], client{at, by}); out != nil {
				_, _ = c.WriteToUDPAddrPort(out, from)
			}
		})
	}
}

// replyTo is the answer to a datagram. What comes from an address that isn't the machine's gets none: it would go to somebody else, with
// what the session says in it.
func (s *Server) replyTo(ctx context.Context, msg []byte, from client) []byte {
	if addr := from.at.Addr(); !addr.IsLoopback() && !s.Own(addr) {
		s.deny(from.denial("dns"), ruling{Verdict: mismatch, note: "it's asked with an address that isn't this machine's"}, "dns://"+addr.String())
		return nil
	}
	return s.reply(ctx, msg, from, false)
}

// serveDNS answers the questions of a TCP connection, one after the other.
func (s *Server) serveDNS(ctx context.Context, c net.Conn, from client) {
	for {
		_ = c.SetDeadline(time.Now().Add(idleDNS))
		msg, err := readFrame(c, maxQuery)
		if errors.Is(err, errTooLong) {
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
		if _, err := c.Write(frame(out)); err != nil {
			return
		}
	}
}

// readFrame reads a message with its length before it (RFC 1035, 4.2.2).
func readFrame(r io.Reader, longest int) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > longest {
		return nil, errTooLong
	}
	msg := make([]byte, n)
	_, err := io.ReadFull(r, msg)
	return msg, err
}

func frame(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
}
