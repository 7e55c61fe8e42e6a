package dns

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// UDPSize is what fits into a datagram on any path (DNS flag day 2020).
const UDPSize = 1232

// Query is a query of the session.
type Query struct {
	id   uint16
	rd   bool
	edns bool
	Size int // of the longest answer that the client takes by UDP
	dnsmessage.Question
}

// What ParseQuery rejects, and ReadFrame.
var (
	ErrNoQuery  = errors.New("it's no query")
	ErrNotAsked = errors.New("it doesn't ask exactly one question")
	ErrTooLong  = errors.New("it's too long")
)

// ParseQuery reads a query. With ErrNotAsked its number is known, and it can be answered that it's wrong.
func ParseQuery(msg []byte) (q Query, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || h.Response {
		return q, ErrNoQuery
	}
	q = Query{id: h.ID, rd: h.RecursionDesired, Size: 512}
	if h.OpCode != 0 || h.Truncated {
		return q, ErrNotAsked
	}
	if q.Question, err = p.Question(); err != nil {
		return q, ErrNotAsked
	}
	if _, err = p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return q, ErrNotAsked
	}
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return q, ErrNotAsked
	}
	for {
		r, err := p.AdditionalHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return q, nil
		}
		if err != nil || p.SkipAdditional() != nil {
			return q, ErrNotAsked
		}
		if r.Type == dnsmessage.TypeOPT {
			q.edns = true
			q.Size = min(max(512, int(r.Class)), UDPSize)
		}
	}
}

// Answer is what is said to a question: addresses of one family, or a code.
type Answer struct {
	Code  dnsmessage.RCode
	Addrs []netip.Addr
	TTL   time.Duration
	Why   string // of a denial, in words
}

// ednsProhibited is the extended error "Prohibited" (RFC 8914, 4.19), and ednsError the option that carries one.
const (
	ednsError      = 15
	ednsProhibited = 18
)

// Pack is the answer as a message of at most size bytes. Without a record of the zone's authority a negative answer isn't kept by
// anybody (RFC 2308, 5), so a policy that is widened counts at once.
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

// ReadFrame reads a message with its length before it (RFC 1035, 4.2.2).
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

// Frame puts a message's length before it.
func Frame(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
}
