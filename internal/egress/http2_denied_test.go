package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// h2Client is an HTTP/2 client that can send malformed frames.
type h2Client struct {
	*http2.Framer
	text bytes.Buffer
	enc  *hpack.Encoder
}

func newHeads(c io.ReadWriter) *h2Client {
	h := &h2Client{}
	h.Framer, h.enc = http2.NewFramer(c, c), hpack.NewEncoder(&h.text)
	h.AllowIllegalWrites, h.ReadMetaHeaders = true, hpack.NewDecoder(4096, nil)
	return h
}

// fields encodes names and values, in turn, without checks.
func (h *h2Client) fields(l ...string) []byte {
	h.text.Reset()
	for i := 0; i < len(l); i += 2 {
		h.enc.WriteField(hpack.HeaderField{Name: l[i], Value: l[i+1]})
	}
	return h.text.Bytes()
}

func (h *h2Client) request(stream uint32, fields ...string) {
	h.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: h.fields(fields...), EndStream: true, EndHeaders: true})
}

// raw sends a frame with any length in its head.
func (h *h2Client) raw(w io.Writer, length int, kind, flags byte, stream uint32, payload []byte) {
	w.Write(append([]byte{byte(length >> 16), byte(length >> 8), byte(length), kind, flags, byte(stream >> 24), byte(stream >> 16), byte(stream >> 8), byte(stream)}, payload...))
}

var plainHead = []string{":method", "GET", ":scheme", "https", ":authority", "a.com", ":path", "/"}

// What net/http rejects as malformed or excessive is reported once.
func TestMalformedHTTP2(t *testing.T) {
	w, cfg := intercepting(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if status, err := strconv.Atoi(r.URL.Path[1:]); err == nil {
			rw.WriteHeader(status)
		}
		if r.URL.Path == "/hang" {
			<-r.Context().Done()
		}
	}), nil)
	w.s.helloTimeout = time.Second
	w.start("a.com")
	cfg.ServerName, cfg.NextProtos = "a.com", []string{"h2"}
	const bad, much = "host_mismatch https://a.com:443", "limit https://a.com:443"
	path := func(p string) []string { return append(slices.Clone(plainHead[:7]), p) }
	with := func(f ...string) []string { return append(slices.Clone(plainHead), f...) }
	for _, x := range []struct {
		name     string
		send     func(c *tls.Conn, h *h2Client)
		got      string
		reported []string
	}{
		{"a request", func(_ *tls.Conn, h *h2Client) { h.request(1, plainHead...) }, "200", nil},
		{"the server's own 400", func(_ *tls.Conn, h *h2Client) { h.request(1, path("/400")...) }, "400", nil},
		{"the server's own 431", func(_ *tls.Conn, h *h2Client) { h.request(1, path("/431")...) }, "431", nil},
		{"a method in small letters", func(_ *tls.Conn, h *h2Client) { h.request(1, append([]string{":method", "get"}, plainHead[2:]...)...) }, "400", []string{bad}},
		{"denied", func(_ *tls.Conn, h *h2Client) { h.request(1, path("/admin")...) }, "403", []string{"rule_denies net.2 https://a.com:443/admin"}},
		{"a line break in a value", func(_ *tls.Conn, h *h2Client) { h.request(1, with("x", "a\r\nhost: evil.com")...) }, "reset", []string{bad}},
		{"a line break in the path", func(_ *tls.Conn, h *h2Client) { h.request(1, path("/ HTTP/1.1\r\nHost: evil.com\r\n\r\n")...) }, "reset", []string{bad}},
		{"a space in the path", func(_ *tls.Conn, h *h2Client) { h.request(1, path("/a b")...) }, "400", []string{bad}},
		{"capitals in a name", func(_ *tls.Conn, h *h2Client) { h.request(1, with("X-Y", "z")...) }, "reset", []string{bad}},
		{"a pseudo field that isn't one", func(_ *tls.Conn, h *h2Client) { h.request(1, append([]string{":x", "y"}, plainHead...)...) }, "reset", []string{bad}},
		{"a pseudo field after the others", func(_ *tls.Conn, h *h2Client) { h.request(1, with("x", "y", ":path", "/admin")...) }, "reset", []string{bad}},
		{"two paths", func(_ *tls.Conn, h *h2Client) { h.request(1, with(":path", "/admin")...) }, "reset", []string{bad}},
		{"two authorities", func(_ *tls.Conn, h *h2Client) { h.request(1, with(":authority", "evil.com")...) }, "reset", []string{bad}},
		{"no path", func(_ *tls.Conn, h *h2Client) { h.request(1, plainHead[:6]...) }, "reset", []string{bad}},
		{"a connection's field", func(_ *tls.Conn, h *h2Client) { h.request(1, with("connection", "keep-alive")...) }, "400", []string{bad}},
		{"another host", func(_ *tls.Conn, h *h2Client) { h.request(1, with("host", "evil.com")...) }, "400", []string{bad}},
		{"the same host", func(_ *tls.Conn, h *h2Client) { h.request(1, with("host", "a.com")...) }, "200", nil},
		{"a hidden length", func(_ *tls.Conn, h *h2Client) { h.request(1, with("content.length", "5")...) }, "400", []string{bad}},
		{"a denied path, in a field", func(_ *tls.Conn, h *h2Client) { h.request(1, with("x.original!url", "/admin")...) }, "403", []string{"rule_denies net.2 https://a.com:443/admin"}},
		{"after the server's own 400", func(_ *tls.Conn, h *h2Client) {
			h.request(1, path("/400")...)
			h.request(3, with("te", "gzip")...)
		}, "400 400", []string{bad}},
		{"two of them", func(_ *tls.Conn, h *h2Client) {
			h.request(1, with("transfer-encoding", "chunked")...)
			h.request(3, with("te", "gzip")...)
		}, "400 400", []string{bad, bad}},
		{"too long a head", func(_ *tls.Conn, h *h2Client) {
			h.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: h.fields(with("x", strings.Repeat("x", 15<<10))...), EndStream: true})
			for i := range 3 {
				h.WriteContinuation(1, false, h.fields(fmt.Sprint("x", i), strings.Repeat("x", 16<<10)))
			}
			h.WriteContinuation(1, true, h.fields("y", strings.Repeat("x", 3<<9))) // net/http wouldn't read much more to its end
		}, "431", []string{bad}},
		{"a head without an end", func(_ *tls.Conn, h *h2Client) {
			h.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: h.fields(plainHead...)})
			for range 64 {
				if h.WriteContinuation(1, false, h.fields("x", strings.Repeat("\x7f", 8<<10))) != nil {
					return
				}
			}
		}, "gone", []string{bad}},
		{"a head that can't be unpacked", func(c *tls.Conn, h *h2Client) { h.raw(c, 2, 1, 5, 1, []byte{0xff, 0xff}) }, "gone", []string{bad}},
		{"too long a frame", func(c *tls.Conn, h *h2Client) { h.raw(c, h2Frame+1, 0, 0, 1, nil) }, "gone", []string{bad}},
		{"a body without a head", func(_ *tls.Conn, h *h2Client) { h.WriteData(1, true, []byte("x")) }, "gone", []string{bad}},
		{"a stream that isn't a client's", func(_ *tls.Conn, h *h2Client) { h.request(2, plainHead...) }, "gone", []string{bad}},
		{"another frame amid a head", func(_ *tls.Conn, h *h2Client) {
			h.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: h.fields(plainHead...)})
			h.WriteData(1, true, nil)
		}, "gone", []string{bad}},
		{"too many at once", func(_ *tls.Conn, h *h2Client) {
			for id := range uint32(h2Streams + 1) {
				h.request(2*id+1, path("/hang")...)
			}
		}, "reset", []string{much}},
		{"another protocol", nil, "closed", []string{much}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := tls.Client(w.dial("203.0.113.1:443"), cfg)
			defer c.Close()
			h := newHeads(c)
			if x.send == nil {
				io.WriteString(c, "GET / HTTP/1.1\r\nHost: a.com\r\n\r\n")
			} else {
				io.WriteString(c, http2.ClientPreface)
				h.WriteSettings()
				go x.send(c, h) // the response may come before the end
			}
			if got := h.outcome(len(strings.Fields(x.got))); got != x.got {
				t.Errorf("the client sees %q, want %q", got, x.got)
			}
			c.Close()
			w.wantDenials(x.reported...)
		})
	}
}

// A denied upload is reported once, however much of it arrives before and after the response.
func TestDeniedUpload(t *testing.T) {
	w, cfg := intercepting(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), nil)
	w.start("a.com")
	cfg.ServerName, cfg.NextProtos = "a.com", []string{"h2"}
	c := tls.Client(w.dial("203.0.113.1:443"), cfg)
	defer c.Close()
	h := newHeads(c)
	io.WriteString(c, http2.ClientPreface)
	h.WriteSettings()
	part := make([]byte, 8<<10)
	upload := []string{":method", "PUT", ":scheme", "https", ":authority", "a.com", ":path", "/admin"}
	for id := uint32(1); id <= 5; id += 4 {
		h.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: h.fields(upload...), EndHeaders: true})
		h.WriteData(id, false, part)
		h.WriteData(id, false, part)
		if got := h.outcome(1); got != "403" {
			t.Errorf("the client sees %q", got)
		}
		for over := id > 1; !over; { // or the rest arrives while the server ends the stream
			f, err := h.ReadFrame()
			_, over = f.(*http2.RSTStreamFrame)
			must(t, err)
		}
		h.WriteData(id, false, part)
		h.WriteData(id, true, part)
		h.request(id+2, plainHead...)
		got := h.outcome(1)
		for got == "reset" { // late frames
			got = h.outcome(1)
		}
		if got != "200" {
			t.Errorf("after it the client sees %q", got)
		}
		w.wantDenials("rule_denies net.2 https://a.com:443/admin")
	}
}

// outcome returns the results of n requests.
func (h *h2Client) outcome(n int) string {
	var l []string
	for len(l) < n {
		f, err := h.ReadFrame()
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			l = append(l, f.PseudoValue("status"))
		case *http2.RSTStreamFrame:
			if f.ErrCode != http2.ErrCodeNo {
				l = append(l, "reset")
			}
		case *http2.GoAwayFrame:
			l = append(l, "gone")
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return "nothing"
		}
		if err != nil {
			return strings.Join(append(l, "closed"), " ")
		}
	}
	return strings.Join(l, " ")
}
