package nettest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// Names are the addresses of a small name server by name, in lower case without the final dot.
type Names map[string][]string

// ServeUDP serves until c is closed.
func (n Names) ServeUDP(c net.PacketConn) {
	b := make([]byte, 4096)
	for {
		size, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		if reply, err := n.answer(b[:size]); err == nil {
			_, _ = c.WriteTo(reply, from)
		}
	}
}

// ServeTCP answers one question on each connection, until l is closed.
func (n Names) ServeTCP(l net.Listener) {
	Accept(l, func(c net.Conn) {
		var size uint16
		if binary.Read(c, binary.BigEndian, &size) != nil {
			return
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(c, b); err != nil {
			return
		}
		if reply, err := n.answer(b); err == nil {
			_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...))
		}
	})
}

func (n Names) answer(b []byte) ([]byte, error) {
	var p dnsmessage.Parser
	h, err := p.Start(b)
	if err != nil {
		return nil, err
	}
	q, err := p.Question()
	if err != nil {
		return nil, err
	}
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: h.ID, Response: true, RecursionAvailable: true}, Questions: []dnsmessage.Question{q}}
	addrs, ok := n[strings.ToLower(strings.TrimSuffix(q.Name.String(), "."))]
	if !ok {
		m.RCode = dnsmessage.RCodeNameError
	}
	for _, a := range addrs {
		r := dnsmessage.Resource{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}}
		switch a := netip.MustParseAddr(a); {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			r.Body = &dnsmessage.AResource{A: a.As4()}
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			r.Body = &dnsmessage.AAAAResource{AAAA: a.As16()}
		default:
			continue
		}
		m.Answers = append(m.Answers, r)
	}
	return m.Pack()
}
