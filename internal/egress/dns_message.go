package egress

import (
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// udpSize is what fits into a datagram on any path (DNS flag day 2020).
const udpSize = 1232

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
	errLong     = errors.New("it's too long")
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

// readFrame reads a message with its length before it (RFC 1035, 4.2.2).
func readFrame(r io.Reader, longest int) ([]byte, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > longest {
		return nil, errLong
	}
	msg := make([]byte, n)
	_, err := io.ReadFull(r, msg)
	return msg, err
}

func frame(msg []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg...)
}
