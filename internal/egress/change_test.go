package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/egress/dns"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// A new policy decides on names, on new connections, and on requests on open connections.
func TestChange(t *testing.T) {
	c := &cdn{}
	changes := make(chan Change)
	w, cfg := newIntercepted(t, c, changes)
	clients, mayDial := map[string]*http.Client{}, map[string]*atomic.Bool{}
	for _, name := range []string{"HTTP/1.1", "HTTP/2.0"} {
		cl := w.client()
		tr := cl.Transport.(*http.Transport)
		may, dial := &atomic.Bool{}, tr.DialContext
		may.Store(true)
		tr.TLSClientConfig, tr.ForceAttemptHTTP2 = cfg.Clone(), true
		tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if !may.Swap(false) {
				t.Errorf("%s: another connection", name)
			}
			return dial(ctx, network, addr)
		}
		if name == "HTTP/1.1" { // http.Transport also makes another connection when it notices too late that one is idle
			cl.Transport = &kept{dial: tr.DialContext, cfg: cfg.Clone()}
		}
		clients[name], mayDial[name] = cl, may
	}
	change := func(l policy.SourceLayer) error {
		eventually(func() bool { return w.countTransfers() == 0 }) // the forwarding of a response ends a moment after the client has it
		came := make(chan error)
		l.Authority = policy.Session
		changes <- Change{Policy: nettest.Policy(t, l), Done: func(err error) { came <- err }}
		return <-came
	}
	for _, x := range []struct {
		rules  []policy.NetRule
		status int
		code   dnsmessage.RCode
	}{
		{interceptRules, 200, dnsmessage.RCodeSuccess},
		{[]policy.NetRule{{Host: "a.com", PathPrefix: "/y", Allow: true}, {Host: "b.com", Allow: true}}, 403, dnsmessage.RCodeSuccess},
		{[]policy.NetRule{{Host: "b.com", Allow: true}}, 403, dnsmessage.RCodeNameError},
		{interceptRules, 200, dnsmessage.RCodeSuccess},
	} {
		must(t, change(policy.SourceLayer{TLSIntercept: true, Net: x.rules}))
		for name, cl := range clients {
			resp, err := cl.Get("https://a.com/x")
			if err != nil && !mayDial[name].Swap(true) && x.code != dnsmessage.RCodeSuccess {
				continue // the connection is denied already
			}
			must(t, err)
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if resp.StatusCode != x.status || resp.Proto != name {
				t.Errorf("%v: %s %s, want %s %d", x.rules, resp.Proto, resp.Status, name, x.status)
			}
			mayDial[name].Store(resp.StatusCode == 403 && name == "HTTP/1.1") // which ends the connection
		}
		if _, code := w.resolve("a.com", dnsmessage.TypeA); code != x.code {
			t.Errorf("%v: the name is answered with %s, want %s", x.rules, code, x.code)
		}
	}
}

// kept is a persistent HTTP/1.1 connection to a.com.
type kept struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
	cfg  *tls.Config
	conn net.Conn
	in   *bufio.Reader
}

func (k *kept) RoundTrip(r *http.Request) (*http.Response, error) {
	if k.conn == nil {
		raw, err := k.dial(r.Context(), "tcp", "a.com:443")
		if err != nil {
			return nil, err
		}
		k.cfg.ServerName = "a.com"
		k.conn = tls.Client(raw, k.cfg)
		k.in = bufio.NewReader(k.conn)
	}
	if err := r.Write(k.conn); err != nil {
		return nil, err
	}
	resp, err := http.ReadResponse(k.in, r)
	if err == nil && resp.Close {
		k.conn = nil
	}
	return resp, err
}

// A new policy ends the transfers of any kind that it denies, and reports them. Those that it grants go on.
func TestChangeEndsConnections(t *testing.T) {
	rules := []policy.NetRule{{Host: "c.com", Port: 5432, Allow: true}}
	for _, host := range []string{"a.com", "b.com"} {
		rules = append(rules, allow(host), policy.NetRule{Host: host, Port: 5432, Allow: true})
	}
	w := newWorld(t, rules...)
	for i, host := range []string{"a.com", "b.com"} {
		addr := fmt.Sprintf("203.0.113.%d", i+1)
		w.zone.set(host, addr)
		for _, port := range []string{":80", ":443", ":5432"} {
			go nettest.Accept(w.listen(addr+port), serveTicks)
		}
	}
	w.start()
	const webSocket = "Connection: upgrade\r\nUpgrade: websocket\r\n"
	kinds := []struct{ name, port, sent, reported string }{
		{"raw", "5432", "send this\n\n", "host_not_listed tcp://a.com:5432"},
		{"TLS", "443", "hello", "host_not_listed https://a.com:443"},
		{"response", "80", "GET / HTTP/1.1\r\nHost: HOST\r\n\r\n", "host_not_listed http://a.com:80/"},
		{"WebSocket", "80", "GET / HTTP/1.1\r\nHost: HOST\r\n" + webSocket + "\r\n", "host_not_listed ws://a.com:80/"},
		{"tunnel", "80", "CONNECT c.com:5432 HTTP/1.1\r\nHost: c.com:5432\r\n\r\nsays this\n\n", "host_not_listed tcp://c.com:5432"},
	}
	open := map[string]*bufio.Reader{}
	for i, host := range []string{"a.com", "b.com"} {
		w.resolve(host, dnsmessage.TypeA)
		for _, k := range kinds {
			sent := strings.ReplaceAll(k.sent, "HOST", host)
			if k.name == "TLS" {
				sent = string(helloBytes(t, host, nil))
			}
			c := w.dial(fmt.Sprintf("203.0.113.%d:%s", i+1, k.port))
			io.WriteString(c, sent)
			open[k.name+" "+host] = bufio.NewReader(c)
			if !ticks(open[k.name+" "+host], 2) {
				t.Fatalf("%s of %s isn't forwarded: reported %q", k.name, host, w.reported())
			}
		}
	}
	w.reload(policy.SourceLayer{Net: append(rules[:1:1], rules[3:]...)})
	reported := w.reported()
	for _, k := range kinds {
		if !slices.Contains(reported, k.reported) {
			t.Errorf("%s: reported %q, not %s", k.name, reported, k.reported)
		}
		if ticks(open[k.name+" a.com"], 1<<20) {
			t.Errorf("%s goes on", k.name)
		}
		if !ticks(open[k.name+" b.com"], 1000) {
			t.Errorf("%s has ended although it's granted", k.name)
		}
	}
	if len(reported) != len(kinds) {
		t.Errorf("reported %q", reported)
	}
	if n := w.countTransfers(); n != len(kinds)+1 { // the tunnel and its content
		t.Errorf("%d are watched", n)
	}
}

// countTransfers returns the number of open transfers.
func (w *world) countTransfers() (n int) {
	for range w.s.transfers.Range {
		n++
	}
	return n
}

// reload puts a policy of one layer in force.
func (w *world) reload(l policy.SourceLayer) {
	w.t.Helper()
	l.Authority = policy.Session
	must(w.t, w.s.current().reload(&Change{Policy: nettest.Policy(w.t, l), Generation: 2}))
}

// A new policy ends an HTTP/2 request that it denies, and no other request on the connection.
func TestChangeEndsRequest(t *testing.T) {
	w, cfg := newIntercepted(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			io.WriteString(w, "tick\n")
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
	}), nil)
	cl := w.tlsClient(cfg)
	open := map[string]*bufio.Reader{}
	for _, path := range []string{"/ends", "/stays"} {
		resp, err := cl.Get("https://a.com" + path)
		if err != nil || resp.StatusCode != 200 || resp.ProtoMajor != 2 {
			t.Fatalf("%s: %+v, %v", path, resp, err)
		}
		defer resp.Body.Close()
		open[path] = bufio.NewReader(resp.Body)
	}
	w.reload(policy.SourceLayer{TLSIntercept: true, Net: []policy.NetRule{{Host: "a.com", PathPrefix: "/stays", Allow: true}}})
	w.wantDenials("host_not_listed https://a.com:443/ends")
	if ticks(open["/ends"], 1<<20) || !ticks(open["/stays"], 100) || len(w.dialed) != 1 {
		t.Errorf("a denied request goes on, or a granted one ends; %d connections", len(w.dialed))
	}
}

// serveTicks sends "tick" repeatedly after the client's first bytes, as an HTTP response if these are HTTP.
func serveTicks(c net.Conn) {
	in := make([]byte, 4096)
	n, _ := c.Read(in)
	tick := "tick\n"
	switch asked := string(in[:n]); {
	case strings.Contains(asked, "Upgrade: websocket"):
		io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
	case strings.HasPrefix(asked, "CONNECT "):
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		c.Read(in)
	case strings.HasPrefix(asked, "GET "):
		io.WriteString(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
		tick = "5\r\ntick\n\r\n"
	}
	for {
		if _, err := io.WriteString(c, tick); err != nil {
			return
		}
		time.Sleep(time.Millisecond / 10)
	}
}

// ticks reports whether n ticks arrive.
func ticks(in *bufio.Reader, n int) bool {
	for n > 0 {
		line, err := in.ReadString('\n')
		if err != nil {
			return false
		}
		if line == "tick\n" {
			n--
		}
	}
	return true
}

// After a failed change the former policy stays in force.
func TestChangeFails(t *testing.T) {
	changes := make(chan Change)
	w := newWorld(t, allow("a.com"))
	w.s.Changes = changes
	w.start()
	came := make(chan error)
	layer := policy.SourceLayer{Authority: policy.Session, TLSIntercept: true, Net: interceptRules[2:]}
	changes <- Change{Policy: nettest.Policy(t, layer), Done: func(err error) { came <- err }}
	if err := <-came; err == nil {
		t.Error("a policy that needs an authority is accepted without one")
	}
	if _, code := w.resolve("a.com", dnsmessage.TypeA); code != dnsmessage.RCodeSuccess {
		t.Errorf("a name that the former policy grants: %s", code)
	}
}

// A lookup that began under the former policy permits nothing when a new one has come into force meanwhile.
func TestChangeDuringLookup(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "a.com", Port: 5432, Allow: true})
	w.start()
	permitted := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		n := len(w.permits)
		clear(w.permits)
		return n
	}
	if _, code := w.resolve("a.com", dnsmessage.TypeA); code != dnsmessage.RCodeSuccess || permitted() != 1 {
		t.Fatal("nothing is permitted: ", code)
	}
	former := w.s.current()
	w.reload(policy.SourceLayer{Net: []policy.NetRule{allow("b.com")}})
	q := dns.Query{Question: dnsmessage.Question{Name: dnsmessage.MustNewName("a.com."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}
	if a := former.resolve(context.Background(), &q, client{}); a.Code != dnsmessage.RCodeServerFailure || permitted() > 0 {
		t.Errorf("it is answered %+v, or permitted", a)
	}
	if reported := w.reported(); len(reported) != 1 || !strings.HasPrefix(reported[0], "dns_denied ") || !strings.HasSuffix(reported[0], " dns://a.com") || !w.hasNote("the policy has changed meanwhile") {
		t.Errorf("reported %q", reported)
	}
}

// A connection is decided on by the policy in force at its first byte.
func TestChangeBeforeFirstByte(t *testing.T) {
	w := newWorld(t, allow("a.com"), policy.NetRule{Host: "a.com", Port: 443, Allow: true})
	got := make(chan string, 1)
	go nettest.Accept(w.listen("203.0.113.1:443"), func(c net.Conn) {
		b, _ := io.ReadAll(c)
		got <- string(b)
	})
	w.start().resolve("a.com", dnsmessage.TypeA)
	for i, text := range []string{"EHLO x\r\n", string(helloBytes(t, "a.com", nil))} {
		c := w.dial("203.0.113.1:443")
		eventually(func() bool { return !w.isIdle() }) // until it is served
		eventually(func() bool { return w.dials() > i })
		former := w.s.current()
		w.reload(policy.SourceLayer{Net: []policy.NetRule{{Host: "a.com", Port: 443}}})
		io.WriteString(c, text)
		io.Copy(io.Discard, c)
		c.Close()
		if s := <-got; s != "" {
			t.Errorf("the server got %q", s)
		}
		w.wantDenials("rule_denies net.1 " + map[bool]string{true: "tcp://a.com:443", false: "https://a.com:443"}[text[0] == 'E'])
		must(t, w.s.current().reload(&Change{Policy: former.Policy, Generation: 2}))
	}
}
