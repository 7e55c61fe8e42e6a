package dns

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	queryTimeout = 2 * time.Second // per name server
	attempts     = 2
	maxChain     = 12 // aliases in a row
)

// MaxAddrs limits the addresses of a name.
const MaxAddrs = 32

// Found is the result of a lookup.
type Found struct {
	Code  dnsmessage.RCode
	Addrs []netip.Addr
	TTL   time.Duration
	Chain []string // the aliases from the query's name on, in lower case
}

var (
	errMismatch  = errors.New("the answer is to another query")
	errCase      = errors.New("the answer doesn't repeat the case of the query's name")
	errTruncated = errors.New("the answer is truncated")
	errNoServer  = errors.New("there is no name server to ask")
)

// ErrCode is the error for a response code other than success and NXDOMAIN.
var ErrCode = errors.New("the name server answers")

// Lookup queries name servers in order.
func Lookup(ctx context.Context, servers []netip.AddrPort, name string, typ dnsmessage.Type) (f Found, err error) {
	err = errNoServer
	for range attempts {
		for _, server := range servers {
			if f, err = query(ctx, server, name, typ); err == nil || ctx.Err() != nil {
				return f, err
			}
		}
	}
	return f, fmt.Errorf("look %s up: %w", name, err)
}

// query queries one server: by UDP, and by TCP if the answer is truncated or doesn't repeat the case of the name.
func query(ctx context.Context, server netip.AddrPort, name string, typ dnsmessage.Type) (Found, error) {
	q, msg, err := newQuery(name, typ)
	if err != nil {
		return Found{}, err
	}
	f, err := exchange(ctx, "udp", server, &q, msg)
	if errors.Is(err, errTruncated) || errors.Is(err, errCase) {
		f, err = exchange(ctx, "tcp", server, &q, msg)
	}
	return f, err
}

// newQuery returns a query with a random ID and random case, which only those who see it can answer.
func newQuery(name string, typ dnsmessage.Type) (Query, []byte, error) {
	var random [2 + 256/8]byte
	_, _ = rand.Read(random[:]) // never fails
	n, err := dnsmessage.NewName(randomCase(name, random[2:]) + ".")
	if err != nil {
		return Query{}, nil, err
	}
	q := Query{id: binary.BigEndian.Uint16(random[:2]), Question: dnsmessage.Question{Name: n, Type: typ, Class: dnsmessage.ClassINET}}
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: q.id, RecursionDesired: true})
	var h dnsmessage.ResourceHeader
	err = errors.Join(b.StartQuestions(), b.Question(q.Question), b.StartAdditionals(),
		h.SetEDNS0(UDPSize, dnsmessage.RCodeSuccess, false), b.OPTResource(h, dnsmessage.OPTResource{}))
	if err != nil {
		return q, nil, err
	}
	msg, err := b.Finish()
	return q, msg, err
}

// randomCase changes the letters whose bit is set to capitals (draft-vixie-dnsext-dns0x20).
func randomCase(name string, bits []byte) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' && bits[i/8]>>(i%8)&1 == 1 {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// exchange sends a query from a new socket, whose port the kernel chooses at random.
func exchange(ctx context.Context, network string, server netip.AddrPort, q *Query, msg []byte) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	c, err := (&net.Dialer{}).DialContext(ctx, network, server.String())
	if err != nil {
		return Found{}, err
	}
	defer c.Close()
	end, _ := ctx.Deadline()
	if err := c.SetDeadline(end); err != nil {
		return Found{}, err
	}
	if network == "tcp" {
		if _, err := c.Write(Frame(msg)); err != nil {
			return Found{}, err
		}
		in, err := ReadFrame(c, 1<<16)
		if err != nil {
			return Found{}, err
		}
		return parseAnswer(in, q, true)
	}
	if _, err := c.Write(msg); err != nil {
		return Found{}, err
	}
	return receive(c, q)
}

// receive waits for the answer and ignores forged and late ones.
func receive(c net.Conn, q *Query) (Found, error) {
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return Found{}, err
		}
		f, err := parseAnswer(buf[:n], q, false)
		if !errors.Is(err, errMismatch) {
			return f, err
		}
	}
}

// parseAnswer reads an answer to q. It ignores the case of the name by TCP, where only the server can answer.
func parseAnswer(msg []byte, q *Query, tcp bool) (f Found, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || !h.Response || h.ID != q.id {
		return f, errMismatch
	}
	got, err := p.Question()
	if err != nil || got.Type != q.Type || got.Class != q.Class || !strings.EqualFold(got.Name.String(), q.Name.String()) {
		return f, errMismatch
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return f, errMismatch
	}
	if !tcp && got.Name != q.Name {
		return f, errCase // maybe forged; the query is repeated by TCP
	}
	if h.Truncated {
		return f, errTruncated
	}
	if f.Code = h.RCode; f.Code != dnsmessage.RCodeSuccess && f.Code != dnsmessage.RCodeNameError {
		return f, fmt.Errorf("%w %s", ErrCode, f.Code)
	}
	return f, f.follow(&p, q)
}

// follow follows the aliases from the query's name to its addresses. Other records are ignored.
func (f *Found) follow(p *dnsmessage.Parser, q *Query) error {
	r := records{aliases: map[string]string{}, addrs: map[string][]netip.Addr{}, ttl: 1<<32 - 1}
	if err := r.read(p, q.Type); err != nil {
		return err
	}
	at := Lower(q.Name)
	for next, ok := r.aliases[at]; ok; next, ok = r.aliases[at] {
		if len(f.Chain) == maxChain {
			return errors.New("too many aliases in a row")
		}
		f.Chain, at = append(f.Chain, next), next
	}
	f.Addrs, f.TTL = r.addrs[at], time.Duration(r.ttl)*time.Second
	return nil
}

// records are the records of the answer section, by owner in lower case.
type records struct {
	aliases map[string]string
	addrs   map[string][]netip.Addr
	ttl     uint32 // the shortest
}

func (r *records) read(p *dnsmessage.Parser, typ dnsmessage.Type) error {
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return nil
		}
		if err != nil {
			return err
		}
		owner := Lower(h.Name)
		switch {
		case h.Class == dnsmessage.ClassINET && h.Type == dnsmessage.TypeCNAME:
			var c dnsmessage.CNAMEResource
			if c, err = p.CNAMEResource(); err == nil {
				r.aliases[owner] = Lower(c.CNAME)
			}
		case h.Class == dnsmessage.ClassINET && h.Type == typ && len(r.addrs[owner]) < MaxAddrs:
			var a netip.Addr
			if a, err = address(p, typ); err == nil {
				r.addrs[owner] = append(r.addrs[owner], a)
			}
		default:
			if err = p.SkipAnswer(); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		r.ttl = min(r.ttl, h.TTL)
	}
}

func address(p *dnsmessage.Parser, typ dnsmessage.Type) (netip.Addr, error) {
	if typ == dnsmessage.TypeA {
		a, err := p.AResource()
		return netip.AddrFrom4(a.A), err
	}
	a, err := p.AAAAResource()
	return netip.AddrFrom16(a.AAAA).Unmap(), err
}

// Lower returns a name in lower case, without the dot at its end.
func Lower(n dnsmessage.Name) string {
	return strings.ToLower(strings.TrimSuffix(n.String(), "."))
}
