package egress

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// roots returns an authority for tests, with a certificate for names.
func roots(t testing.TB, names ...string) (*x509.CertPool, *tls.Config) {
	t.Helper()
	ca, err := nettest.NewAuthority()
	must(t, err)
	cert, err := ca.Certify(names...)
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM)
	return pool, &tls.Config{Certificates: []tls.Certificate{*cert}}
}

// putTLS makes an address lead to a handler behind TLS, also for HTTP/2.
func (w *world) putTLS(to string, h http.Handler, cfg *tls.Config) {
	srv := httptest.NewUnstartedServer(h)
	srv.Listener.Close()
	srv.Listener, srv.TLS, srv.EnableHTTP2 = w.listen(to), cfg, true
	srv.StartTLS()
	w.t.Cleanup(srv.Close)
}

// tlsClient is client with a TLS configuration and HTTP/2.
func (w *world) tlsClient(cfg *tls.Config) *http.Client {
	cl := w.client()
	tr := cl.Transport.(*http.Transport)
	tr.TLSClientConfig, tr.ForceAttemptHTTP2 = cfg, true
	return cl
}

// status returns the status of a response to GET, or 0.
func (w *world) status(cl *http.Client, url string) int {
	resp, err := cl.Get(url)
	if err != nil {
		w.t.Error(err)
		return 0
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body) // else the stream may still count as open
	return resp.StatusCode
}

// newTLS returns a world in which all names lead to one address that serves them.
func newTLS(t *testing.T, rules ...policy.NetRule) (*world, *tls.Config) {
	names := []string{"a.com", "b.com", "evil.com", "wss.com", "odd.com", "ech.com"}
	pool, cfg := roots(t, names...)
	w := newWorld(t, rules...)
	for _, n := range names {
		w.zone.set(n, "203.0.113.1")
	}
	w.putTLS("203.0.113.1:443", &cdn{}, cfg)
	return w.start(), &tls.Config{RootCAs: pool}
}

func TestServerNames(t *testing.T) {
	w, cfg := newTLS(t, allow("a.com"), policy.NetRule{Host: "b.com", Port: 443, Allow: true}, denied("evil.com"), policy.NetRule{Host: "wss.com", Scheme: "wss", Allow: true},
		allow("odd.com"), policy.NetRule{Host: "odd.com", Scheme: "wss"}, policy.NetRule{Host: "ech.com", Allow: true})
	for _, x := range []struct {
		name     string
		resolved string // by the session
		sni      string
		ech      bool
		reported string // "": allowed
	}{
		{name: "resolved", resolved: "a.com", sni: "a.com"},
		{name: "not resolved, but true", sni: "a.com"},
		{name: "upper case", resolved: "a.com", sni: "A.com"},
		{name: "with its port", resolved: "b.com", sni: "b.com"},
		{name: "fronting", resolved: "a.com", sni: "evil.com", reported: "rule_denies net.3 https://evil.com:443"},
		{name: "not listed", resolved: "a.com", sni: "unlisted.com", reported: "host_not_listed https://unlisted.com:443"},
		{name: "a raw port is no way around", resolved: "b.com", sni: "evil.com", reported: "rule_denies net.3 https://evil.com:443"},
		{name: "only wss", resolved: "wss.com", sni: "wss.com"},
		{name: "wss denied", resolved: "odd.com", sni: "odd.com", reported: "rule_denies net.6 https://odd.com:443"},
		{name: "a name and a path", resolved: "a.com", sni: "a.com/.evil.com", reported: "host_mismatch https://a.com:443"},
		{name: "a name and a query", resolved: "a.com", sni: "a.com?evil.com", reported: "host_mismatch https://a.com:443"},
		{name: "a name and a fragment", resolved: "a.com", sni: "a.com#evil.com", reported: "host_mismatch https://a.com:443"},
		{name: "a wide name", resolved: "a.com", sni: "ａ.com", reported: "host_mismatch https://a.com:443"},
		{name: "a name with a soft hyphen", resolved: "a.com", sni: "a\u00ad.com", reported: "host_mismatch https://a.com:443"},
		{name: "no name", resolved: "a.com"},
		{name: "no name, two known", resolved: "a.com b.com", reported: "host_mismatch https://203.0.113.1:443"},
		{name: "no name, none known", reported: "host_not_listed https://203.0.113.1:443"},
		{name: "ECH", resolved: "ech.com", sni: "ech.com", ech: true},
		{name: "ECH, another name outside", resolved: "ech.com", sni: "a.com", ech: true, reported: "host_mismatch https://ech.com:443"},
		{name: "ECH, two names known", resolved: "ech.com a.com", sni: "ech.com", ech: true, reported: "host_mismatch https://203.0.113.1:443"},
		{name: "ECH, none known", sni: "ech.com", ech: true, reported: "host_mismatch https://203.0.113.1:443"},
	} {
		w.clearNames()
		for n := range strings.FieldsSeq(x.resolved) {
			w.resolve(n, a4)
		}
		c := cfg.Clone()
		c.ServerName = x.sni
		if x.sni == "" {
			c.InsecureSkipVerify, c.VerifyConnection = true, func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname("a.com") }
		}
		if x.ech {
			c.EncryptedClientHelloConfigList = echConfigs(t, x.sni)
			c.ServerName = "hidden.com"
			c.EncryptedClientHelloRejectionVerify = func(tls.ConnectionState) error { return nil }
		}
		conn := tls.Client(w.dial("203.0.113.1:443"), c)
		err := conn.Handshake()
		var rejected *tls.ECHRejectionError
		reached := err == nil || errors.As(err, &rejected) // by the server
		if reached != (x.reported == "") || !reached && !strings.Contains(err.Error(), "access denied") {
			t.Errorf("%s: %v", x.name, err)
		}
		w.wantReports(x.name, x.reported)
		conn.Close()
	}
}

// echConfigs returns a list with one configuration, whose outer name is name.
func echConfigs(t *testing.T, name string) []byte {
	t.Helper()
	key := make([]byte, 32)
	rand.Read(key)
	key[31] &= 0x7f
	c := append([]byte{1, 0, 0x20, 0, 32}, key...)        // id, KEM X25519, key
	c = append(c, 0, 4, 0, 1, 0, 1, 0)                    // HKDF-SHA256 with AES-128-GCM; no maximum name length
	c = append(append(c, byte(len(name))), name...)       // the outer name
	c = append(c, 0, 0)                                   // no extensions
	c = append([]byte{0xfe, 0x0d, 0, byte(len(c))}, c...) // version, length
	return append([]byte{0, byte(len(c))}, c...)
}

// A malformed or incomplete hello reaches no server.
func TestBadHellos(t *testing.T) {
	w, _ := newTLS(t, allow("a.com"))
	w.resolve("a.com", a4)
	for name, text := range map[string]string{
		"nonsense":           "\x16\x03\x01\x00\x05hello",
		"SSL 2":              "\x16\x80\x2e\x01\x03\x01\x00",
		"an endless hello":   "\x16\x03\x01\x40\x00\x01\xff\xff\xff" + strings.Repeat("\x00", 16<<10),
		"an alert":           "\x16\x03\x01\x00\x00",
		"a name with a dot":  string(helloBytes(t, "a.com.", nil)),
		"a name in brackets": string(bytes.Replace(helloBytes(t, "aaa.com", nil), []byte("aaa.com"), []byte("[::1]:8"), 1)),
		"a name with NUL":    string(bytes.Replace(helloBytes(t, "a.comx", nil), []byte("a.comx"), []byte("a.com\x00"), 1)),
		"a path after it":    string(bytes.Replace(helloBytes(t, "a.comaevil.com", nil), []byte("a.coma"), []byte("a.com/"), 1)),
		"a query after it":   string(bytes.Replace(helloBytes(t, "a.comaevil.com", nil), []byte("a.coma"), []byte("a.com?"), 1)),
		"a fragment after":   string(bytes.Replace(helloBytes(t, "a.comaevil.com", nil), []byte("a.coma"), []byte("a.com#"), 1)),
		"not in ASCII":       string(bytes.Replace(helloBytes(t, "aaa.com", nil), []byte("aaa.com"), []byte("\uff41.com"), 1)),
		"a user before":      string(bytes.Replace(helloBytes(t, "evil.a.com", nil), []byte("evil.a.com"), []byte("evil@a.com"), 1)),
	} {
		c := w.dial("203.0.113.1:443")
		io.WriteString(c, text)
		c.CloseWrite()
		if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, accessDenied) {
			t.Errorf("%s: %v %x", name, err, got)
		}
		if got := w.takeDenials(); len(got) != 1 || got[0].Answer.Reason != policy.HostMismatch || w.dials() > 0 {
			t.Errorf("%s: reported %+v, %d dialed", name, got, w.dials())
		}
	}
	// Control, in pieces.
	c := w.dial("203.0.113.1:443")
	for _, b := range helloBytes(t, "a.com", nil) {
		c.Write([]byte{b})
	}
	if head := make([]byte, 3); func() bool { _, err := io.ReadFull(c, head); return err != nil || head[0] != 0x16 }() {
		t.Errorf("control: %x", head)
	}
}

// helloBytes returns a client's hello for a name.
func helloBytes(t testing.TB, name string, protocols []string) []byte {
	t.Helper()
	rec := &recorder{}
	_ = tls.Client(rec, &tls.Config{ServerName: strings.TrimSuffix(name, "."), NextProtos: protocols}).Handshake()
	if strings.HasSuffix(name, ".") { // the client wouldn't send it
		bare := strings.TrimSuffix(name, ".")
		return bytes.Replace(rec.Bytes(), []byte(bare), []byte(bare[:len(bare)-1]+"."), 1)
	}
	return rec.Bytes()
}

// recorder is a connection that records what is sent.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Read([]byte) (int, error)         { return 0, io.EOF }
func (r *recorder) Write(p []byte) (int, error)      { return r.Buffer.Write(p) }
func (r *recorder) Close() error                     { return nil }
func (r *recorder) SetWriteDeadline(time.Time) error { return nil }

// Bytes that are neither TLS nor HTTP are allowed where a rule grants the port as raw.
func TestRaw(t *testing.T) {
	w := newWorld(t, allow("a.com"), policy.NetRule{Host: "mail.com", Port: 2525, Allow: true}, policy.NetRule{Host: "evil.com", Port: 2525},
		policy.NetRule{Host: "tls.com", Port: 443, Allow: true}, policy.NetRule{Host: "203.0.113.9", Port: 2525, Allow: true},
		policy.NetRule{Host: "shell.com", Scheme: "ssh", Allow: true}, denied("no-shell.com"))
	for n, a := range map[string]string{"a.com": "203.0.113.1", "mail.com": "203.0.113.2", "evil.com": "203.0.113.2", "tls.com": "203.0.113.3", "shell.com": "203.0.113.4"} {
		w.zone.set(n, a)
	}
	greet := func(to string) { // a server that sends first
		go nettest.Accept(w.listen(to), func(c net.Conn) {
			io.WriteString(c, "220 ")
			io.Copy(c, c)
		})
	}
	for _, to := range []string{"203.0.113.1:80", "203.0.113.1:443", "203.0.113.2:2525", "203.0.113.3:443", "203.0.113.4:22", "203.0.113.9:2525"} {
		greet(to)
	}
	w.start()
	for _, x := range []struct{ name, resolved, to, text, reported string }{
		{"a raw port", "mail.com", "203.0.113.2:2525", "EHLO x\r\n", ""},
		{"not in capitals", "mail.com", "203.0.113.2:2525", "\x00\x00\x00\x08\x04\xd2\x16\x2f", ""},
		{"one byte", "mail.com", "203.0.113.2:2525", "A", ""},
		{"the server first", "mail.com", "203.0.113.2:2525", "", ""},
		{"what only begins like TLS", "mail.com", "203.0.113.2:2525", "\x16\x00\x00\x00\x00", ""},
		{"the server first, on a web port", "tls.com", "203.0.113.3:443", "", ""},
		{"no known name", "", "203.0.113.2:2525", "EHLO x\r\n", "host_not_listed tcp://203.0.113.2:2525"},
		{"a scheme that shows no name", "shell.com", "203.0.113.4:22", "SSH-2.0-x\r\n", ""},
		{"by address", "", "203.0.113.9:2525", "EHLO x\r\n", ""},
		{"on a web port that is granted as raw", "tls.com", "203.0.113.3:443", "SSH-2.0-x\r\n", ""},
		{"on a web port that isn't", "a.com", "203.0.113.1:443", "SSH-2.0-x\r\n", "host_not_listed tcp://a.com:443"},
		{"HTTP/2 without TLS", "a.com", "203.0.113.1:80", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "host_not_listed tcp://a.com:80"},
		{"HTTP/0.9", "a.com", "203.0.113.1:80", "GET /\r\n", "host_not_listed tcp://a.com:80"},
		{"lower case", "a.com", "203.0.113.1:80", "get / HTTP/1.1\r\nHost: a.com\r\n\r\n", "host_not_listed tcp://a.com:80"},
	} {
		w.clearNames()
		if x.resolved != "" {
			w.resolve(x.resolved, a4)
		}
		c := w.dial(x.to)
		io.WriteString(c, x.text)
		want := "220 " + x.text
		got := make([]byte, len(want))
		n, err := io.ReadFull(c, got)
		if x.reported == "" && string(got) != want {
			t.Errorf("%s: %v %q", x.name, err, got[:n])
		}
		if x.reported != "" && !(n == 0 && errors.Is(err, syscall.ECONNRESET)) {
			t.Errorf("%s: %v %q, not reset", x.name, err, got[:n])
		}
		w.wantReports(x.name, x.reported)
		c.Close()
	}
	// A name that is denied on the port stays denied if another name has the same address.
	w.clearNames()
	w.s.names.add("mail.com", netip.MustParseAddr("203.0.113.2"), time.Now().Add(time.Hour))
	w.s.names.add("evil.com", netip.MustParseAddr("203.0.113.2"), time.Now().Add(time.Hour))
	c := w.dial("203.0.113.2:2525")
	io.WriteString(c, "EHLO x\r\n")
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("%d %v", n, err)
	}
	w.wantDenials("rule_denies net.3 tcp://203.0.113.2:2525")
}

// A connection that the kernel didn't redirect is reset.
func TestUnredirected(t *testing.T) {
	w := newWorld(t, allow("a.com")).start()
	wantReset(t, w)
	w.wantDenials()
}

// wantReset opens a connection that must be reset before any data.
func wantReset(t *testing.T, w *world) {
	t.Helper()
	c, err := net.Dial("tcp4", w.tcp.String())
	if err == nil { // not reset already
		defer c.Close()
		c.SetDeadline(time.Now().Add(testTimeout))
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("not reset: %v", err)
	}
}

// A connection above the limit is denied at once, until another one ends.
func TestConnectionLimit(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	w.s.connSlots, w.anyDestination = make(chan struct{}, 2), netip.MustParseAddrPort("203.0.113.1:80")
	w.serve("203.0.113.1:80", &cdn{})
	w.start("a.com")
	get := getRequest("a.com")
	first := w.dial("203.0.113.1:80")
	w.dial("203.0.113.1:80")
	eventually(func() bool { return len(w.s.connSlots) == 2 })
	wantReset(t, w)
	w.wantDenials("limit tcp://203.0.113.1:80")
	first.Close()
	eventually(func() bool { return len(w.s.connSlots) < 2 })
	w.wantStatus("when one has ended", "203.0.113.1:80", get, 200)
}

// interceptRules need interception of TLS.
var interceptRules = []policy.NetRule{
	{Host: "a.com", Allow: true},
	{Host: "a.com", PathPrefix: "/admin"},
	{Host: "b.com", Scheme: "https", PathPrefix: "/v1", Methods: []string{"GET"}, Allow: true},
	{Host: "evil.com"},
	{Host: "untrusted.com", Allow: true},
}

func newIntercepted(t *testing.T, h http.Handler, changes <-chan Change) (*world, *tls.Config) {
	w, cfg := intercepting(t, h, changes)
	return w.start(), cfg
}

// intercepting is newIntercepted without start.
func intercepting(t *testing.T, h http.Handler, changes <-chan Change) (*world, *tls.Config) {
	pool, cfg := roots(t, "a.com", "b.com", "evil.com")
	w := newWorldOf(t, policy.SourceLayer{TLSIntercept: true, Net: interceptRules})
	w.s.Changes = changes
	client := w.intercept(pool)
	for _, n := range []string{"a.com", "b.com", "evil.com"} {
		w.zone.set(n, "203.0.113.1")
	}
	w.zone.set("untrusted.com", "203.0.113.2")
	w.putTLS("203.0.113.1:443", h, cfg)
	_, other := roots(t, "untrusted.com")
	w.putTLS("203.0.113.2:443", h, other)
	return w, client
}

// intercept makes the server intercept TLS and trust servers of a pool. It returns the configuration of a client that trusts the server.
func (w *world) intercept(servers *x509.CertPool) *tls.Config {
	w.t.Helper()
	ca, err := NewAuthority()
	must(w.t, err)
	w.s.CA, w.s.verify = ca, &tls.Config{RootCAs: servers}
	mine := x509.NewCertPool()
	if !mine.AppendCertsFromPEM(ca.Bundle()) {
		w.t.Fatal("no certificate in the bundle")
	}
	return &tls.Config{RootCAs: mine}
}

// newIntercepting intercepts TLS to a.com, and isn't started.
func newIntercepting(t *testing.T) (w *world, server, client *tls.Config) {
	pool, server := roots(t, "a.com")
	w = newWorldOf(t, policy.SourceLayer{TLSIntercept: true, Net: []policy.NetRule{allow("a.com"), {Host: "a.com", PathPrefix: "/admin"}}})
	client = w.intercept(pool)
	client.ServerName = "a.com"
	return w, server, client
}

func TestIntercept(t *testing.T) {
	c := &cdn{}
	w, cfg := newIntercepted(t, c, nil)
	w.resolve("b.com", a4)
	other := w.dial("203.0.113.1:8443") // of a name that is granted on another port
	other.Write(helloBytes(t, "b.com", nil))
	if b, err := io.ReadAll(other); err != nil || string(b) != string(accessDenied) {
		t.Errorf("another port: %v %x", err, b)
	}
	w.wantDenials("host_not_listed https://b.com:8443")
	for _, h2 := range []bool{false, true} {
		cl := w.client()
		tr := cl.Transport.(*http.Transport)
		tr.TLSClientConfig, tr.ForceAttemptHTTP2 = cfg.Clone(), h2
		if !h2 {
			tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
		}
		for _, x := range []struct {
			method, url string
			status      int
			reported    string
		}{
			{"GET", "https://a.com/x%20y?q=1;2", 200, ""},
			{"POST", "https://a.com/upload", 200, ""},
			{"GET", "https://a.com/admin", 403, "rule_denies net.2 https://a.com:443/admin"},
			{"GET", "https://a.com/x/..%2fadmin", 403, "rule_denies net.2 https://a.com:443/x/..%2fadmin"},
			{"GET", "https://a.com/override", 403, "rule_denies net.2 https://a.com:443/admin"},
			{"delete", "https://a.com/x", 400, "host_mismatch https://a.com:443"},
			{"GET", "https://b.com/v1/x", 200, ""},
			{"POST", "https://b.com/v1/x", 403, "host_not_listed https://b.com:443/v1/x"},
			{"GET", "https://b.com/v2", 403, "host_not_listed https://b.com:443/v2"},
			{"GET", "https://a.com/again", 200, ""},
		} {
			req, _ := http.NewRequest(x.method, x.url, nil)
			if x.method == "POST" {
				req, _ = http.NewRequest(x.method, x.url, strings.NewReader("body"))
			}
			if strings.HasSuffix(x.url, "override") {
				req.Header.Set("X-Original-Url", "/admin")
			}
			resp, err := cl.Do(req)
			if err != nil {
				t.Errorf("%s %s: %v", x.method, x.url, err)
				continue
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != x.status || (resp.ProtoMajor == 2) != h2 && resp.StatusCode == 200 {
				t.Errorf("%s %s: %s %s", x.method, x.url, resp.Proto, resp.Status)
			}
			w.wantReports(x.method+" "+x.url, x.reported)
		}
		want := []string{"GET /x%20y?q=1;2 a.com", "POST /upload a.com body", "GET /v1/x b.com", "GET /again a.com"}
		if got := c.takeRequests(); !slices.Equal(got, want) {
			t.Errorf("h2 %v: the server got %q, want %q", h2, got, want)
		}
		// Domain fronting: the Host differs from the server name.
		for host, reported := range map[string]string{"b.com": "host_mismatch https://b.com:443/v1/x", "evil.com": "host_mismatch https://evil.com:443/v1/x"} {
			req, _ := http.NewRequest("GET", "https://a.com/v1/x", nil)
			req.Host = host
			if resp, err := cl.Do(req); err != nil || resp.StatusCode != 403 {
				t.Errorf("fronting %s: %v %+v", host, err, resp)
			}
			w.wantDenials(reported)
		}
		if got := c.takeRequests(); len(got) > 0 {
			t.Errorf("fronting: the server got %q", got)
		}
	}
}

// A server with an invalid certificate is not shown to the client. A denied name isn't dialed.
func TestInterceptVerifies(t *testing.T) {
	w, cfg := newIntercepted(t, &cdn{}, nil)
	cl := w.client()
	cl.Transport.(*http.Transport).TLSClientConfig = cfg
	if _, err := cl.Get("https://untrusted.com/"); err == nil || !strings.Contains(err.Error(), "access denied") {
		t.Errorf("a server with an untrusted certificate: %v", err)
	}
	w.wantDenials("host_mismatch https://untrusted.com:443")
	w.resolve("a.com", a4)
	c := cfg.Clone()
	c.ServerName = "evil.com"
	before := w.dials()
	if err := tls.Client(w.dial("203.0.113.1:443"), c).Handshake(); err == nil {
		t.Error("a denied name is answered")
	}
	w.wantDenials("rule_denies net.4 https://evil.com:443")
	if w.dials() != before {
		t.Error("a denied name was dialled")
	}
	if err := (&Server{Policy: w.s.Policy}).Serve(context.Background(), nil, nil); err == nil {
		t.Error("it serves without an authority")
	}
}

// A client that doesn't trust the session's authority leaves nothing of its connection to others.
func TestInterceptDistrusted(t *testing.T) {
	w, _ := newIntercepted(t, &cdn{}, nil)
	w.resolve("a.com", a4)
	for range 16 {
		if err := tls.Client(w.dial("203.0.113.1:443"), &tls.Config{ServerName: "a.com", RootCAs: x509.NewCertPool()}).Handshake(); err == nil {
			t.Fatal("the handshake succeeds without a trusted authority")
		}
	}
	eventually(w.isIdle)
	if !w.hasNote("must trust the session's authority: remote error: tls: bad certificate") {
		t.Error("the report has no reason")
	}
	w.wantDenials(slices.Repeat([]string{"host_mismatch https://a.com:443"}, 16)...)
	seen := map[*bufio.Reader]bool{}
	for range 64 {
		r := getReader(nil)
		if seen[r] {
			t.Fatal("two connections get one reader")
		}
		seen[r] = true
	}
}

// A persistent connection of intercepted HTTP/1.1, whose requests are written strictly, and WebSockets under TLS.
func TestInterceptHTTP1(t *testing.T) {
	w, cfg := newIntercepted(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprint(rw, "plain")
			return
		}
		c, in, _ := rw.(http.Hijacker).Hijack()
		defer c.Close()
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		line, _ := in.ReadString('\n')
		io.WriteString(c, line)
	}), nil)
	w.resolve("a.com", a4)
	cfg.ServerName = "a.com"
	c := tls.Client(w.dial("203.0.113.1:443"), cfg)
	in := bufio.NewReader(c)
	for _, x := range []struct {
		text   string
		status int
	}{
		{"GET /1 HTTP/1.1\r\nHost: a.com\r\n\r\n", 200},
		{"GET /2 HTTP/1.1\r\nHost: a.com:443\r\n\r\n", 200},
		{"GET /ws HTTP/1.1\r\nHost: a.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 101},
	} {
		io.WriteString(c, x.text)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != x.status {
			t.Fatalf("%q: %v %+v", x.text, err, resp)
		}
		if x.status == 200 {
			io.Copy(io.Discard, resp.Body)
		}
	}
	io.WriteString(c, "frame\n")
	if got, err := in.ReadString('\n'); got != "frame\n" {
		t.Errorf("%v %q", err, got)
	}
	for _, text := range []string{"POST / HTTP/1.1\r\nHost: a.com\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "GET https://a.com/ HTTP/1.1\r\nHost: a.com\r\n\r\n", "CONNECT a.com:443 HTTP/1.1\r\nHost: a.com:443\r\n\r\n"} {
		c := tls.Client(w.dial("203.0.113.1:443"), cfg)
		io.WriteString(c, text)
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != 400 {
			t.Errorf("%q: %v %+v", text, err, resp)
		}
	}
}

func TestBundle(t *testing.T) {
	ca, err := NewAuthority()
	must(t, err)
	b := ca.Bundle()
	if first, rest := pem.Decode(b); first == nil || len(rest) > 0 || !bytes.Equal(first.Bytes, ca.cert.Raw) {
		t.Errorf("%s", b)
	}
	if bytes.Contains(b, []byte("PRIVATE")) {
		t.Error("the bundle has a key")
	}
	for range 2 * maxCertificates {
		if _, err := ca.certificate(rand.Text() + ".com"); err != nil {
			t.Fatal(err)
		}
	}
	if len(ca.certificates) > maxCertificates {
		t.Errorf("%d certificates are kept", len(ca.certificates))
	}
	leaf, err := ca.certificate("203.0.113.1")
	must(t, err)
	cert, _ := x509.ParseCertificate(leaf.Certificate[0])
	pool := x509.NewCertPool()
	pool.AddCert(ca.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: pool, DNSName: "203.0.113.1"}); err != nil {
		t.Error(err)
	}
}
