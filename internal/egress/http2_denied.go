package egress

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"

	"golang.org/x/net/http2/hpack"
)

// h2Monitor is an HTTP/2 connection with a client. net/http rejects malformed and excessive requests by itself, without a hook, so the
// monitor reads the frames that net/http writes. They are well-formed, and no attacker writes them.
type h2Monitor struct {
	net.Conn
	report func(decision)

	frameBuf []byte // the current frame, as far as it is needed
	skip     int    // bytes of a payload that isn't needed
	decoder  *hpack.Decoder

	mu       sync.Mutex
	expected map[string]int // pending responses of ours, by a status that net/http uses too
	ended    bool           // the connection has ended, and the reason is reported if there is one
}

func newH2Monitor(c net.Conn, report func(decision)) *h2Monitor {
	m := &h2Monitor{Conn: c, report: report, expected: map[string]int{}}
	m.decoder = hpack.NewDecoder(tableSize, m.checkStatus)
	return m
}

// Of RFC 9113, 6 and 7.
const (
	frameHead     = 9
	frameHeaders  = 1
	frameReset    = 3
	frameGoAway   = 7
	frameContinue = 9

	codeNone            = 0
	codeInternal        = 2 // also if the server failed
	codeStreamClosed    = 5 // late frames of an answered request
	codeRefusedStream   = 7
	codeCancel          = 8
	codeEnhanceYourCalm = 11

	tableSize = 4096 // the HPACK table (RFC 7541, 6.3)
)

func (m *h2Monitor) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		m.markEnded()
	}
	return n, err
}

// Close closes the connection, and reports it if net/http closes it without a frame.
func (m *h2Monitor) Close() error {
	if !m.markEnded() {
		m.report(overLimit(noteSlow + ", or not HTTP/2"))
	}
	return m.Conn.Close()
}

// markEnded returns whether the connection had ended before.
func (m *h2Monitor) markEnded() (before bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, m.ended = m.ended, true
	return before
}

func (m *h2Monitor) Write(p []byte) (int, error) {
	for q := p; len(q) > 0; {
		n := min(m.skip, len(q))
		m.skip -= n
		if q = q[n:]; len(q) > 0 {
			q = m.scan(q)
		}
	}
	n, err := m.Conn.Write(p)
	if err != nil {
		m.markEnded()
	}
	return n, err
}

// scan reads the bytes of one frame and returns the rest.
func (m *h2Monitor) scan(p []byte) []byte {
	n := min(m.frameLen()-len(m.frameBuf), len(p))
	m.frameBuf = append(m.frameBuf, p[:n]...)
	if len(m.frameBuf) < frameHead {
		return p[n:]
	}
	if kind := m.frameBuf[3]; kind != frameHeaders && kind != frameContinue && kind != frameReset && kind != frameGoAway {
		m.skip, m.frameBuf = m.frameLen()-frameHead, m.frameBuf[:0]
	} else if len(m.frameBuf) == m.frameLen() {
		m.handleFrame(kind, m.frameBuf[frameHead:])
		m.frameBuf = m.frameBuf[:0]
	}
	return p[n:]
}

// frameLen returns the length of the frame, or of its head while that is incomplete.
func (m *h2Monitor) frameLen() int {
	if len(m.frameBuf) < frameHead {
		return frameHead
	}
	return frameHead + int(m.frameBuf[0])<<16 + int(binary.BigEndian.Uint16(m.frameBuf[1:]))
}

func (m *h2Monitor) handleFrame(kind byte, payload []byte) {
	switch kind {
	case frameHeaders, frameContinue:
		_, _ = m.decoder.Write(payload)
	case frameReset:
		m.reportCode(binary.BigEndian.Uint32(payload))
	case frameGoAway:
		m.markEnded()
		m.reportCode(binary.BigEndian.Uint32(payload[4:]))
	}
}

func (m *h2Monitor) reportCode(code uint32) {
	switch code {
	case codeNone, codeInternal, codeStreamClosed, codeCancel:
	case codeRefusedStream, codeEnhanceYourCalm:
		m.report(overLimit("too many requests at once"))
	default:
		m.report(mismatch(fmt.Sprintf("a violation of HTTP/2 (its error code %d)", code)))
	}
}

// ambiguousStatus reports whether net/http sends a status by itself too: for fields that HTTP/2 forbids, and for a head that is too long.
func ambiguousStatus(status string) bool { return status == "400" || status == "431" }

func (m *h2Monitor) checkStatus(f hpack.HeaderField) {
	if f.Name != ":status" || !ambiguousStatus(f.Value) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.expected[f.Value] > 0 {
		m.expected[f.Value]--
		return
	}
	note := "header fields that HTTP/2 forbids"
	if f.Value == "431" {
		note = errTooLong.Error()
	}
	m.report(mismatch("a request's head: " + note))
}

// responder writes the response to a request that was decided on.
type responder struct {
	http.ResponseWriter
	conn *h2Monitor
}

// WriteHeader announces to the monitor a status that net/http could also send.
func (w *responder) WriteHeader(status int) {
	if s := strconv.Itoa(status); ambiguousStatus(s) {
		w.conn.expect(s, 1)
		defer func() {
			if http.NewResponseController(w.ResponseWriter).Flush() != nil { // it was not sent
				w.conn.expect(s, -1)
			}
		}()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (w *responder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (m *h2Monitor) expect(status string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expected[status] = max(0, m.expected[status]+n)
}
