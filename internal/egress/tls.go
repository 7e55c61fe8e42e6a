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

// hello is what a TLS client says in the clear.
type hello struct {
	name      string
	protocols []string
	ech       bool
	bytes     []byte // all that was read
}

// errHello ends the handshake when the hello is known.
var errHello = errors.New("that was the hello")

// readHello reads a hello without answering it.
func readHello(r io.Reader) (h hello, err error) {
	tape := &tape{from: r}
	err = tls.Server(tape, &tls.Config{GetConfigForClient: func(i *tls.ClientHelloInfo) (*tls.Config, error) {
		h.name, h.protocols, h.ech = i.ServerName, i.SupportedProtos, slices.Contains(i.Extensions, extensionECH)
		return nil, errHello
	}}).Handshake()
	h.bytes = tape.heard
	if errors.Is(err, errHello) {
		err = nil
	}
	return h, err
}

// tape is a connection that can only be listened to, and that remembers what it heard.
type tape struct {
	net.Conn // none: whatever else would be done with it fails loudly
	from     io.Reader
	heard    []byte
}

func (t *tape) Read(p []byte) (int, error) {
	if len(t.heard) >= maxHello {
		return 0, errTooLong
	}
	n, err := t.from.Read(p)
	t.heard = append(t.heard, p[:n]...)
	return n, err
}

func (t *tape) Write(p []byte) (int, error)      { return len(p), nil } // an alert to nobody
func (t *tape) Close() error                     { return nil }
func (t *tape) SetWriteDeadline(time.Time) error { return nil } // of the alert

// serveTLS decides on a connection by the hello, and passes it on as it is, or ends TLS here.
func (f *conn) serveTLS(names []string, raw decision) {
	giveBack, err := f.roomForHello()
	if err != nil {
		f.refuseTLS(decision{Verdict: slow, note: err.Error()}, "https://"+f.where())
		return
	}
	defer giveBack()
	h, err := readHello(f.in)
	_ = f.conn.SetReadDeadline(time.Time{})
	if err != nil && raw.Allow && !errors.Is(err, os.ErrDeadlineExceeded) {
		f.passOnRaw(h.bytes) // it only began like one
		return
	}
	if err != nil {
		v, note := mismatch, "no TLS hello: "+err.Error()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			v, note = slow, "too slow to say what it wants"
		}
		f.refuseTLS(decision{Verdict: v, note: note}, "https://"+f.where())
		return
	}
	t, note := f.tlsTarget(&h, names)
	if note != "" {
		f.refuseTLS(decision{Verdict: mismatch, note: note}, "https://"+f.where())
		return
	}
	if f.s.Policy.Intercepts() {
		f.intercept(&h, t)
		return
	}
	if r := f.decide(&t); !r.Allow {
		f.refuseTLS(r, t.String())
		return
	}
	f.untilEnd(f.watch(func(f *conn) decision { return f.decide(&t) }, func(f *conn, r decision) { f.deny("tls", "", r, t.String()) }, f.cut))
	f.passOn(h.bytes)
}

// roomForHello waits for a hello that is as short as most in no more than the connection's buffer. A longer one, or one in pieces, may hold
// more than that until it's whole.
func (f *conn) roomForHello() (giveBack func(), err error) {
	head, err := f.in.Peek(recordHead)
	if err != nil {
		return func() {}, nil // which readHello finds too
	}
	n := recordHead + int(binary.BigEndian.Uint16(head[3:]))
	if n > f.in.Size() {
		return f.s.budget.take(holdsHello)
	}
	record, err := f.in.Peek(n)
	if err == nil && n >= recordHead+messageHead && messageHead+int(binary.BigEndian.Uint32(record[recordHead:])&0xffffff) > n-recordHead {
		return f.s.budget.take(holdsHello)
	}
	return func() {}, nil
}

// tlsTarget is what a hello asks for. A note: it can't be known.
func (f *conn) tlsTarget(h *hello, names []string) (t netname.Target, note string) {
	if h.name == "" || h.ech {
		t, ok := f.only("https", names)
		switch {
		case !ok:
			return t, fmt.Sprintf("the hello doesn't show a server name, and the address belongs to %d", len(names))
		case h.ech && h.name != "" && h.name != t.Host:
			return t, "the server name is encrypted"
		}
		return t, ""
	}
	t, err := parseTarget("https", f.hostPort(h.name), "/", false)
	switch {
	case err != nil:
		return t, err.Error()
	case t.Host != "" && strings.ToLower(h.name) != t.Host: // it's passed on as it's written, and others may read it otherwise
		return t, fmt.Sprintf("the server name isn't written as a name is: %s", t.Host)
	}
	return t, ""
}

// alert is the fatal alert access_denied, as a record (RFC 8446, 6.2).
var alert = []byte{21, 3, 3, 0, 2, 2, 49}

func (f *conn) refuseTLS(r decision, target string) {
	f.deny("tls", "", r, target)
	_ = f.conn.SetWriteDeadline(time.Now().Add(closeTime))
	_, _ = f.conn.Write(alert)
	f.finish()
}
