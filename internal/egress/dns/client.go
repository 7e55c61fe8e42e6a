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
	askTime  = 2 * time.Second // for one name server to answer
	askTurns = 2
	maxChain = 12 // names that lead from one to the next
)

// MaxAddrs is how many addresses of a name count.
const MaxAddrs = 32

// Found is what upstream says of a name.
type Found struct {
	Code  dnsmessage.RCode
	Addrs []netip.Addr
	TTL   time.Duration
	Chain []string // the names that the question's one leads to, in lower case
}

var (
	errWrong     = errors.New("the answer is to another question")
	errCapitals  = errors.New("the answer doesn't keep the capitals of the question")
	errTruncated = errors.New("the answer doesn't fit")
	errNoServer  = errors.New("no name server is known")
)

// ErrCode is that of a server that answers with another code than that the name exists, or doesn't.
var ErrCode = errors.New("the name server says")

// Lookup asks name servers in turn.
func Lookup(ctx context.Context, servers []netip.AddrPort, name string, typ dnsmessage.Type) (f Found, err error) {
	err = errNoServer
	for range askTurns {
		for _, server := range servers {
			if f, err = ask(ctx, server, name, typ); err == nil || ctx.Err() != nil {
				return f, err
			}
		}
	}
	return f, fmt.Errorf("look %s up: %w", name, err)
}

// ask asks one server: by UDP, and by TCP when the answer is too long or the server doesn't keep our capitals.
func ask(ctx context.Context, server netip.AddrPort, name string, typ dnsmessage.Type) (Found, error) {
	q, msg, err := newQuery(name, typ)
	if err != nil {
		return Found{}, err
	}
	f, err := exchange(ctx, "udp", server, &q, msg)
	if errors.Is(err, errTruncated) || errors.Is(err, errCapitals) {
		f, err = exchange(ctx, "tcp", server, &q, msg)
	}
	return f, err
}

// newQuery is a query with a random number, and with random capitals, that whoever doesn't see it can't answer.
func newQuery(name string, typ dnsmessage.Type) (Query, []byte, error) {
	var random [2 + 256/8]byte
	_, _ = rand.Read(random[:]) // never fails
	n, err := dnsmessage.NewName(capitals(name, random[2:]) + ".")
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

// capitals writes the letters whose bit is set as capitals (draft-vixie-dnsext-dns0x20).
func capitals(name string, bits []byte) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' && bits[i/8]>>(i%8)&1 == 1 {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}

// exchange sends a query from a fresh socket, whose port the kernel chooses at random.
func exchange(ctx context.Context, network string, server netip.AddrPort, q *Query, msg []byte) (Found, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
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

// receive waits for the answer and passes over what is forged or late.
func receive(c net.Conn, q *Query) (Found, error) {
	buf := make([]byte, 4096)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return Found{}, err
		}
		f, err := parseAnswer(buf[:n], q, false)
		if !errors.Is(err, errWrong) {
			return f, err
		}
	}
}

// parseAnswer reads an answer to q. By TCP nobody else can have sent it, so that there the capitals mean nothing.
func parseAnswer(msg []byte, q *Query, tcp bool) (f Found, err error) {
	var p dnsmessage.Parser
	h, err := p.Start(msg)
	if err != nil || !h.Response || h.ID != q.id {
		return f, errWrong
	}
	got, err := p.Question()
	if err != nil || got.Type != q.Type || got.Class != q.Class || !strings.EqualFold(got.Name.String(), q.Name.String()) {
		return f, errWrong
	}
	if _, err := p.Question(); !errors.Is(err, dnsmessage.ErrSectionDone) {
		return f, errWrong
	}
	if !tcp && got.Name != q.Name {
		return f, errCapitals // forged, perhaps; by TCP the true one comes
	}
	if h.Truncated {
		return f, errTruncated
	}
	if f.Code = h.RCode; f.Code != dnsmessage.RCodeSuccess && f.Code != dnsmessage.RCodeNameError {
		return f, fmt.Errorf("%w %s", ErrCode, f.Code)
	}
	return f, f.follow(&p, q)
}

// follow reads the records and goes from the name that was asked for along the aliases to the addresses. Other records don't count.
func (f *Found) follow(p *dnsmessage.Parser, q *Query) error {
	r := records{alias: map[string]string{}, addrs: map[string][]netip.Addr{}, ttl: 1<<32 - 1}
	if err := r.read(p, q.Type); err != nil {
		return err
	}
	at := Lower(q.Name)
	for next, ok := r.alias[at]; ok; next, ok = r.alias[at] {
		if len(f.Chain) == maxChain {
			return errors.New("the aliases lead too far")
		}
		f.Chain, at = append(f.Chain, next), next
	}
	f.Addrs, f.TTL = r.addrs[at], time.Duration(r.ttl)*time.Second
	return nil
}

// records are the answer section, by lower-case owner.
type records struct {
	alias map[string]string
	addrs map[string][]netip.Addr
	ttl   uint32 // the shortest
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
				r.alias[owner] = Lower(c.CNAME)
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

// Lower is a name as names are compared, without the dot at its end.
func Lower(n dnsmessage.Name) string {
	return strings.ToLower(strings.TrimSuffix(n.String(), "."))
}
