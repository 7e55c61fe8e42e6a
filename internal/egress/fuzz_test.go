package egress

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/egress/dns"
	"github.com/toolguard/toolguard/internal/policy"
)

// For any message, the answer belongs to it, has a limited size, and has granted names only.
func FuzzQuery(f *testing.F) {
	w := newWorld(f, policy.NetRule{Host: "localhost", Port: 80, Allow: true})
	w.s.init()
	w.s.latest = w.s
	for _, name := range []string{"localhost", "a.com", "x.localhost"} {
		for _, typ := range []dnsmessage.Type{a4, a6, dnsmessage.TypeHTTPS} {
			f.Add(query(f, name, typ))
		}
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		out := w.s.answer(t.Context(), msg, client{}, false)
		w.takeDenials()
		if out == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || !m.Response || len(out) > dns.UDPSize {
			t.Fatalf("%v: %x", err, out)
		}
		if !bytes.Equal(out[:2], msg[:2]) {
			t.Errorf("another ID: %x", out)
		}
		for _, a := range m.Answers {
			if dns.Lower(a.Header.Name) != "localhost" {
				t.Errorf("%+v", a)
			}
		}
	})
}

// For any bytes, readHello returns all that it read, and only a name in them.
func FuzzHello(f *testing.F) {
	f.Add(helloBytes(f, "a.com", []string{"h2", "http/1.1"}))
	f.Add(helloBytes(f, "a.com.", nil))
	f.Add([]byte("\x16\x03\x01\x00\x05hello"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(bytes.NewReader(b))
		if !bytes.HasPrefix(b, h.bytes) || len(h.bytes) > maxHello+32<<10 {
			t.Errorf("%x was returned of %x", h.bytes, b)
		}
		if err == nil && h.name != "" && !bytes.Contains(b, []byte(h.name)) && !bytes.Contains(bytes.ToLower(b), []byte(h.name)) {
			t.Errorf("%q isn't in %x", h.name, b)
		}
	})
}

// net/http parses each head that parseHead accepts in the same way: one request with the same length, host and target.
func FuzzHead(f *testing.F) {
	for _, s := range []string{
		"GET / HTTP/1.1\r\nHost: a.com\r\n\r\n", "POST http://a.com/x HTTP/1.0\r\nhost:a\r\nContent-Length: 5\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nX: y\r\n\r\n", "CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", "GET / HTTP/1.1\nHost: a\n\n", "\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		raw, err := readHead(bufio.NewReader(bytes.NewReader(b)), func() error { return nil })
		if err != nil {
			return
		}
		if !bytes.HasPrefix(b, raw) {
			t.Fatalf("%q was read of %q", raw, b)
		}
		h, err := parseHead(raw)
		if err != nil {
			return
		}
		out := h.append(nil)
		again, err := parseHead(out)
		if err != nil || string(again.append(nil)) != string(out) {
			t.Fatalf("%q becomes %q: %v", raw, out, err)
		}
		sameAsGo(t, h, out)
	})
}

// sameAsGo compares with net/http.
func sameAsGo(t *testing.T, h *head, out []byte) {
	in := bufio.NewReader(bytes.NewReader(out))
	r, err := http.ReadRequest(in)
	if err != nil {
		return // net/http is stricter in some ways
	}
	want := h.length
	if h.method == "CONNECT" || r.Method != h.method || r.ContentLength != want && r.Body != http.NoBody {
		if h.method != "CONNECT" {
			t.Errorf("%q: %s %d", out, r.Method, r.ContentLength)
		}
	}
	if !strings.Contains(h.target, "://") && r.Host != h.host && r.URL.Host == "" {
		t.Errorf("%q: the host is %q", out, r.Host)
	}
	if rest, _ := io.ReadAll(in); h.length == 0 && len(rest) > 0 {
		t.Errorf("%q: %q is left", out, rest)
	}
}

// More bytes don't change a protocol that was recognized.
func FuzzClassify(f *testing.F) {
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n"))
	f.Add([]byte("PRI * HTTP/2.0\r\n"))
	f.Add([]byte("\x16\x03\x01"))
	f.Add([]byte("SSH-2.0-x\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var kind protocol
		var sure bool
		for i := range len(b) + 1 {
			k, s := classify(b[:i])
			if sure && (!s || k != kind) {
				t.Fatalf("%q is %d, and then %d", b[:i], kind, k)
			}
			kind, sure = k, s
		}
	})
}
