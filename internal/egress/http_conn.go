package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// httpConn is HTTP/1 on one connection: requests one after the other, each decided on.
type httpConn struct {
	f     *conn
	proto string // for denials: "http", or "tls" where it's intercepted
	name  string // the name that TLS was ended for, which every request must be for
	up    *upstream

	unwatch func() // while a request is being answered
	over    func() // ends its watch
	short   func() // gives the room for a long head back
}

// request is a request with what it asks for.
type request struct {
	*head
	t     netname.Target
	also  []netname.Target // what some servers would take it for
	url   string           // t as a URL, without a query
	proxy bool             // it asks a proxy to go there
	ws    bool
	sent  chan error // what came of sending its body
	waits bool       // for the server to want that
}

// serveHTTP decides on every request of a connection.
func (f *conn) serveHTTP() {
	(&httpConn{f: f, proto: "http"}).run()
}

func (k *httpConn) run() {
	for k.next() {
	}
}

// next deals with one request. False: the connection has ended, or is another's.
func (k *httpConn) next() bool {
	k.short = func() {}
	r, err := k.read()
	defer func() { k.short() }()
	if err != nil {
		k.bad(err)
		return false
	}
	k.f.s = k.f.s.now()
	if v := k.decide(r); !v.Allow {
		k.refuse(http.StatusForbidden, k.deny(r, v))
		return false
	}
	k.over = k.watch(r, k.f.cut)
	goesOn := k.forward(r)
	k.over()
	if !goesOn {
		return false
	}
	if err := k.rest(); err != nil {
		k.end()
		return false
	}
	return true
}

// rest waits for the next request without holding buffers.
func (k *httpConn) rest() error {
	f := k.f
	_ = f.conn.SetReadDeadline(time.Time{})
	if k.up != nil && k.up.in.Buffered() > 0 {
		return errHead("the server says more than it was asked")
	}
	if f.in.Buffered() > 0 {
		return nil
	}
	if _, tcp := f.conn.(*net.TCPConn); tcp {
		giveBack(f.in)
		f.in = nil
		if k.up != nil {
			k.up.rest() // nothing: the response is over
		}
		if err := waitReadable(f.conn); err != nil {
			return err
		}
		f.in = borrow(f.conn)
	}
	_, err := f.in.Peek(1)
	return err
}

// read reads a request and understands what it asks for.
func (k *httpConn) read() (*request, error) {
	_ = k.f.conn.SetReadDeadline(time.Now().Add(k.f.s.hello))
	raw, err := readHead(k.f.in, func() (err error) {
		k.short, err = k.f.s.budget.take(holdsHead)
		return err
	})
	_ = k.f.conn.SetReadDeadline(time.Time{})
	if err != nil {
		return nil, err
	}
	h, err := parseHead(raw)
	if err != nil {
		return nil, err
	}
	r := &request{head: h}
	r.upgrade()
	return r, k.target(r)
}

// upgrade takes out what would change the language of the connection, but for WebSockets, which are a scheme of their own.
func (r *request) upgrade() {
	r.ws = strings.EqualFold(r.only("Upgrade"), "websocket") && r.method == http.MethodGet && r.lists("Connection", "upgrade") && r.version == "HTTP/1.1" && r.length == 0
	if !r.ws {
		r.drop("Upgrade", "HTTP2-Settings")
	}
}

// deny reports that a request isn't passed on.
func (k *httpConn) deny(r *request, v decision) refusal {
	method, url := r.method, r.url
	if v.shown != "" {
		method, url = v.about.Method, v.shown
	}
	return refusing(method, k.f.deny(k.proto, method, v, url))
}

// limited reports that there's no time or capacity for a request.
func (k *httpConn) limited(method, url string, err error) refusal {
	return refusing(method, k.f.deny(k.proto, method, decision{Verdict: slow, note: err.Error()}, url))
}

// wrong reports what can't be decided on.
func (k *httpConn) wrong(err error) refusal {
	return refusing("", k.f.deny(k.proto, "", decision{Verdict: mismatch, note: err.Error()}, k.origin()))
}

// decide is the verdict on a request, and on everything else that it could be taken for.
func (k *httpConn) decide(r *request) decision {
	r.t.Method = r.method
	v := k.decideAs(r)
	decide := k.f.decide
	if r.proxy {
		decide = k.decideProxied
	}
	for i := 0; v.Allow && i < len(r.also); i++ {
		if o := decide(&r.also[i]); !o.Allow {
			o.shown, o.note = r.also[i].String(), "a header field asks for another path or method"
			if o.about.Method == "" {
				o.about = r.also[i]
			}
			return o
		}
	}
	return v
}

// decideAs is the verdict on what a request says. What isn't for the connection's own end is for a proxy there, and both count.
func (k *httpConn) decideAs(r *request) decision {
	if k.name != "" && hostOf(&r.t) != k.name {
		return decision{Verdict: mismatch, note: "TLS was for " + k.name}
	}
	if r.method != http.MethodConnect {
		v := k.f.decide(&r.t)
		if !r.proxy || v.Allow {
			r.direct()
			return v
		}
		if v.Reason != policy.HostMismatch {
			return v
		}
		return k.decideProxied(&r.t)
	}
	if v := k.decideProxy(&netname.Target{Method: r.method}); !v.Allow {
		return v
	}
	return k.decideTunnel(&r.t)
}

// decideProxied is the verdict on what the connection's end is asked for as a proxy. It may be none: an ordinary server looks at neither
// the scheme nor the port of a URL, and serves the path as its own, or that of the host that it's for.
func (k *httpConn) decideProxied(t *netname.Target) decision {
	if r := k.decideProxy(t); !r.Allow {
		return r
	}
	c := k.f.s.Policy
	out := decision{Verdict: c.CheckNet(t), about: *t}
	if !out.Allow {
		return out
	}
	served := *t
	served.Scheme, served.Port = map[string]string{"http": "http", "https": "http", "ws": "ws", "wss": "ws"}[t.Scheme], k.f.to.Port()
	own := decision{Verdict: c.CheckNet(&served), about: served}
	if own.Reason == policy.HostNotListed {
		switch here, err := k.f.here(t); {
		case err != nil:
			return decision{Verdict: mismatch, note: "it can't be told whether this is the server of that name: " + err.Error()}
		case !here:
			return out
		}
	}
	if !own.Allow {
		own.note = "a server that is no proxy would take it for " + served.Scheme + "://" + served.HostPort()
		return own
	}
	return out
}

// direct makes a request that would do for a proxy one for the server itself.
func (r *request) direct() {
	if r.proxy {
		r.proxy = false
		_, _, tail, _ := splitURL(r.head.target)
		r.head.target = originForm(tail)
	}
}

// decideProxy is the verdict on using the connection's end as a proxy. If it's none, its default host is asked for the path.
func (k *httpConn) decideProxy(asked *netname.Target) decision {
	t, ok := k.f.only("http", k.f.names())
	if !ok {
		return decision{Verdict: mismatch, note: "the proxy's address has several names"}
	}
	t.Method, t.Path, t.Odd = asked.Method, asked.Path, asked.Odd
	return k.f.decide(&t)
}

// decideTunnel is whether a tunnel could be used for anything. What is said in it is decided when it's said.
func (k *httpConn) decideTunnel(t *netname.Target) decision {
	c := k.f.s.Policy
	out := decision{Verdict: c.CheckNet(t), about: *t}
	if out.Allow {
		return out
	}
	if t.Host != "" {
		ways, _ := c.Ways(t.Host)
		for _, w := range ways {
			if w.Target.Port == t.Port && w.Target.Protocol == "tcp" {
				return decision{Verdict: w.Verdict, about: w.Target}
			}
		}
		if len(ways) > 0 && out.Reason == policy.HostNotListed {
			out.note = fmt.Sprintf("%s is granted, but not its port %d", t.Host, t.Port)
		}
		return out
	}
	for _, scheme := range []string{"http", "https", "ws", "wss"} {
		at := *t
		at.Scheme = scheme
		if v := c.CheckNet(&at); v.Allow {
			return decision{Verdict: v, about: at}
		}
	}
	return out
}

// bad ends a connection on which no request could be read.
func (k *httpConn) bad(err error) {
	var wrong errHead
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		k.refuse(http.StatusRequestTimeout, k.limited("", k.origin(), errors.New("too slow to say what it wants")))
	case errors.Is(err, errBudget):
		k.refuse(http.StatusServiceUnavailable, k.limited("", k.origin(), err))
	case errors.As(err, &wrong) || errors.Is(err, errTooLong):
		k.refuse(http.StatusBadRequest, k.wrong(err))
	case errors.Is(err, io.ErrUnexpectedEOF):
		k.f.reset()
		k.endUp()
	default:
		k.end()
	}
}

// origin is the server as a URL.
func (k *httpConn) origin() string {
	if k.name != "" {
		return "https://" + k.f.hostPort(k.name)
	}
	return "http://" + k.f.where()
}

// end closes both sides.
func (k *httpConn) end() {
	k.endUp()
	k.f.finish()
}

func (k *httpConn) endUp() {
	if k.up != nil {
		k.up.close()
		k.up = nil
	}
}
