package egress

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/policy/netname"
)

const (
	tlsHandshake = 0x16 // the record type that a hello begins with
	maxHello     = 64 << 10
	recordHead   = 5      // a type, a version, a length (RFC 8446, 5.1)
	messageHead  = 4      // a type, a length (4)
	extensionECH = 0xfe0d // RFC 9849
)

// hello is a TLS ClientHello.
type hello struct {
	name      string
	protocols []string
	ech       bool
	bytes     []byte // everything that was read
}

// errHello ends the handshake when the hello is parsed.
var errHello = errors.New("the hello is complete")

// readHello reads a hello without answering it.
func readHello(r io.Reader) (h hello, err error) {
	hc := &helloConn{src: r}
	err = tls.Server(hc, &tls.Config{GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
		h.name, h.protocols, h.ech = i.ServerName, i.SupportedProtos, slices.Contains(i.Extensions, extensionECH)
		return nil, errHello
	}}).Handshake()
	h.bytes = hc.read
	if errors.Is(err, errHello) {
		err = nil
	}
	return h, err
}

// helloConn is a connection that can only be read, and that records what it read.
type helloConn struct {
	net.Conn // nil: every other use panics
	src      io.Reader
	read     []byte
}

func (c *helloConn) Read(p []byte) (int, error) {
	if len(c.read) >= maxHello {
		return 0, errTooLong
	}
	n, err := c.src.Read(p)
	c.read = append(c.read, p[:n]...)
	return n, err
}

func (c *helloConn) Write(p []byte) (int, error)      { return len(p), nil } // an alert
func (c *helloConn) Close() error                     { return nil }
func (c *helloConn) SetWriteDeadline(time.Time) error { return nil } // for the alert

// serveTLS decides on a connection by its hello, and forwards it unchanged or ends TLS here.
func (c *conn) serveTLS(names []string, raw decision) {
	release, err := c.reserveHello()
	if err != nil {
		c.denyTLS(overLimit(err.Error()), "https://"+c.destination())
		return
	}
	defer release()
	h, err := readHello(c.in)
	_ = c.conn.SetReadDeadline(time.Time{})
	if err != nil && raw.Allow && !errors.Is(err, os.ErrDeadlineExceeded) {
		c.forwardRaw(h.bytes) // not TLS after all
		return
	}
	if err != nil {
		d := mismatch("no TLS hello: " + err.Error())
		if errors.Is(err, os.ErrDeadlineExceeded) {
			d = overLimit(noteSlow)
		}
		c.denyTLS(d, "https://"+c.destination())
		return
	}
	t, note := c.tlsTarget(&h, names)
	if note != "" {
		c.denyTLS(mismatch(note), "https://"+c.destination())
		return
	}
	if c.s.Policy.Intercepts() {
		c.intercept(&h, t)
		return
	}
	if r := c.decide(&t); !r.Allow {
		c.denyTLS(r, t.String())
		return
	}
	c.onClose(c.watch(func(c *conn) decision { return c.decide(&t) }, func(c *conn, r decision) { c.deny("tls", "", r, t.String()) }, c.abort))
	c.forward(h.bytes)
}

// reserveHello reserves memory for a hello that doesn't fit into the connection's buffer, or that comes in several records.
func (c *conn) reserveHello() (release func(), err error) {
	head, err := c.in.Peek(recordHead)
	if err != nil {
		return func() {}, nil // readHello gets the same error
	}
	n := recordHead + int(binary.BigEndian.Uint16(head[3:]))
	if n > c.in.Size() {
		return c.s.budget.reserve(helloCost)
	}
	record, err := c.in.Peek(n)
	if err == nil && n >= recordHead+messageHead && messageHead+int(binary.BigEndian.Uint32(record[recordHead:])&0xffffff) > n-recordHead {
		return c.s.budget.reserve(helloCost)
	}
	return func() {}, nil
}

// tlsTarget returns the target of a hello. A note says why there is none.
func (c *conn) tlsTarget(h *hello, names []string) (t netname.Target, note string) {
	if h.name == "" || h.ech {
		t, ok := c.defaultTarget("https", names)
		switch {
		case !ok:
			return t, fmt.Sprintf("the hello shows no server name, and the address has %d", len(names))
		case h.ech && h.name != "" && h.name != t.Host:
			return t, "the server name is encrypted"
		}
		return t, ""
	}
	t, err := parseTarget("https", c.hostPort(h.name), "/", false)
	switch {
	case err != nil:
		return t, err.Error()
	case t.Host != "" && strings.ToLower(h.name) != t.Host: // it's forwarded as written, and the server may parse it differently
		return t, fmt.Sprintf("the server name isn't in its normal form %s", t.Host)
	}
	return t, ""
}

// accessDenied is the fatal alert access_denied, as a record (RFC 8446, 6.2).
var accessDenied = []byte{21, 3, 3, 0, 2, 2, 49}

func (c *conn) denyTLS(r decision, target string) {
	c.deny("tls", "", r, target)
	_ = c.conn.SetWriteDeadline(time.Now().Add(closeTimeout))
	_, _ = c.conn.Write(accessDenied)
	c.finish()
}
