package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

// Another policy decides about names, about new connections, and about requests on those that are open.
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
		if name == "HTTP/1.1" { // http.Transport makes another connection too when it was kept from noticing in time that one is free
			cl.Transport = &kept{dial: tr.DialContext, cfg: cfg.Clone()}
		}
		clients[name], mayDial[name] = cl, may
	}
	change := func(l policy.SourceLayer) error {
		came := make(chan error)
		l.Authority = policy.Session
		changes <- Change{Policy: compileLayer(t, l), Done: func(err error) { came <- err }}
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
		if err := change(policy.SourceLayer{TLSIntercept: true, Net: x.rules}); err != nil {
			t.Fatal(err)
		}
		for name, cl := range clients {
			resp, err := cl.Get("https://a.com/x")
			if err != nil && !mayDial[name].Swap(true) && x.code != dnsmessage.RCodeSuccess {
				continue // it can't even be connected to
			}
			if err != nil {
				t.Fatal(err)
			}
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

// kept is a connection of HTTP/1.1 to a.com that is kept as long as it can be.
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

// A change that can't be made isn't.
func TestChangeRefused(t *testing.T) {
	changes := make(chan Change)
	w := newWorld(t, allow("a.com"))
	w.s.Changes = changes
	w.zone.set("a.com", "203.0.113.1")
	w.start()
	came := make(chan error)
	layer := policy.SourceLayer{Authority: policy.Session, TLSIntercept: true, Net: interceptRules[2:]}
	changes <- Change{Policy: compileLayer(t, layer), Done: func(err error) { came <- err }}
	if err := <-came; err == nil {
		t.Error("a policy that needs an authority is taken without")
	}
	if _, code := w.resolve("a.com", dnsmessage.TypeA); code != dnsmessage.RCodeSuccess {
		t.Errorf("what was granted before: %s", code)
	}
}

// What the former policy grants isn't noted down any more when another one has come while a name server was asked.
func TestChangeWhileAsked(t *testing.T) {
	w := newWorld(t, policy.NetRule{Host: "a.com", Port: 5432, Allow: true})
	w.zone.set("a.com", "203.0.113.1")
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
	former := w.s.now()
	if err := former.reload(compileLayer(t, policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{allow("b.com")}})); err != nil {
		t.Fatal(err)
	}
	q := question{Question: dnsmessage.Question{Name: dnsmessage.MustNewName("a.com."), Type: dnsmessage.TypeA, Class: dnsmessage.ClassINET}}
	if a := former.resolve(context.Background(), &q, client{}); a.code != dnsmessage.RCodeServerFailure || permitted() > 0 {
		t.Errorf("it's answered %+v, or permitted", a)
	}
	if told := w.told(); len(told) != 1 || !strings.HasPrefix(told[0], "dns_denied ") || !strings.HasSuffix(told[0], " dns://a.com") || !w.noted("the policy has changed meanwhile") {
		t.Errorf("told %q", told)
	}
}

// A connection that has said nothing yet is decided on by the policy that's in force when it does.
func TestChangeBeforeItSpeaks(t *testing.T) {
	w := newWorld(t, allow("a.com"), policy.NetRule{Host: "a.com", Port: 443, Allow: true})
	w.zone.set("a.com", "203.0.113.1")
	got := make(chan string, 1)
	go nettest.Accept(w.listen("203.0.113.1:443"), func(c net.Conn) {
		b, _ := io.ReadAll(c)
		got <- string(b)
	})
	w.start().resolve("a.com", dnsmessage.TypeA)
	for _, text := range []string{"EHLO x\r\n", string(helloBytes(t, "a.com", nil))} {
		c := w.dial("203.0.113.1:443")
		for len(w.s.conns) == 0 {
			time.Sleep(time.Millisecond) // until it's served
		}
		for end := time.Now().Add(patience); w.dials() == 0 && time.Now().Before(end); {
			time.Sleep(time.Millisecond)
		}
		former := w.s.now()
		if err := former.reload(compileLayer(t, policy.SourceLayer{Authority: policy.Session, Net: []policy.NetRule{{Host: "a.com", Port: 443}}})); err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, text)
		io.Copy(io.Discard, c)
		c.Close()
		if s := <-got; s != "" {
			t.Errorf("the server got %q", s)
		}
		w.wantTold("rule_denies net.1 " + map[bool]string{true: "tcp://a.com:443", false: "https://a.com:443"}[text[0] == 'E'])
		if err := w.s.now().reload(former.Policy); err != nil {
			t.Fatal(err)
		}
	}
}
