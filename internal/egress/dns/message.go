package dns

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// UDPSize is the largest datagram that every path forwards (DNS flag day 2020).
const UDPSize = 1232

// Query is a query of the session.
type Query struct {
	id   uint16
	rd   bool
	edns bool
	Size int // limit for an answer by UDP
	dnsmessage.Question
}

// Errors of ParseQuery and ReadFrame.
var (
	ErrNoQuery        = errors.New("the message is no query")
	ErrNotOneQuestion = errors.New("the query hasn't exactly one question")
	ErrTooLong        = errors.New("the message is too long")
)

// ParseQuery parses a query. With ErrNotOneQuestion the ID is valid, so the query can be answered with an error.
func ParseQuery(msg []byte) (q Query, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || h.Response {
		return q, ErrNoQuery
	}
	q = Query{id: h.ID, rd: h.RecursionDesired, Size: 512}
	if h.OpCode != 0 || h.Truncated {
		return q, ErrNotOneQuestion
	}
	if q.Question, err = p.Question(); err != nil {
		return q, ErrNotOneQuestion
	}
	if _, err = p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, ErrNotOneQuestion
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, ErrNotOneQuestion
	}
	for {
		r, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return q, nil
		}
		if err != nil || p.SkipAdditional() != nil {
			return q, ErrNotOneQuestion
		}
		if r.Type == dnsmessage.TypeOPT {
			q.edns = true
			q.Size = min(max(512, int(r.Class)), UDPSize)
		}
	}
}

// Answer is the answer to a query: addresses of one family, or a code.
type Answer struct {
	Code  dnsmessage.RCode
	Addrs []netip.Addr
	TTL   time.Duration
	Why   string // the reason for a denial, as text
}

// ednsProhibited is the extended error "Prohibited" (RFC 8914, 4.19), and ednsError the option that carries one.
const (
	ednsError      = 15
	ednsProhibited = 18
)

// Pack encodes the answer in at most size bytes. A negative answer has no SOA record, so resolvers don't cache it (RFC 2308, 5), and a
// policy that grants more has effect at once.
func (a *Answer) Pack(q *Query, size int) []byte {
	msg, err := a.build(q, a.Addrs, false)
	if err == nil && len(msg) > size {
		msg, err = a.build(q, nil, true)
	}
	if err != nil {
		return nil
	}
	return msg
}

func (a *Answer) build(q *Query, addrs []netip.Addr, truncated bool) ([]byte, error) {
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: q.id, Response: true, RecursionDesired: q.rd, RecursionAvailable: true, RCode: a.Code, Truncated: truncated})
	b.EnableCompression()
	err := b.StartQuestions()
	if q.Name.Length > 0 {
		err = errors.Join(err, b.Question(q.Question))
	}
	err = errors.Join(err, b.StartAnswers())
	h := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET, TTL: uint32(a.TTL / time.Second)}
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

func (a *Answer) edns(b *dnsmessage.Builder) error {
	var h dnsmessage.ResourceHeader
	var r dnsmessage.OPTResource
	err := h.SetEDNS0(UDPSize, a.Code, false)
	if a.Why != "" {
		data := append(binary.BigEndian.AppendUint16(nil, ednsProhibited), a.Why...)
		r.Options = []dnsmessage.Option{{Code: ednsError, Data: data}}
	}
	return errors.Join(err, b.OPTResource(h, r))
}

// ReadFrame reads a message with its length in front (RFC 1035, 4.2.2).
func ReadFrame(r io.Reader, longest int) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > longest {
		return nil, ErrTooLong
	}
	msg := make([]byte, n)
	_, err := io.ReadFull(r, msg)
	return msg, err
}

// Frame returns a message with its length in front.
func Frame(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
}
