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

// httpConn is an HTTP/1 connection. Each of its requests is decided on.
type httpConn struct {
	c       *conn
	proto   string // for denials: "http", or "tls" where TLS is intercepted
	tlsHost string // the server name of the hello, which every request must be for
	isProxy bool   // egress itself is the proxy: each request names its server
	routed  string // that server's host and port, while up is connected to it
	up      *upstream

	stopClientCheck func() // of the current request
	unwatch         func() // of the current request
	releaseHead     func() // releases the memory for a long head
}

// request is a parsed request with its target.
type request struct {
	*head
	dest            netname.Target
	alternatives    []netname.Target // other targets that some servers would serve
	url             string           // dest as a URL, without a query
	viaProxy        bool             // the request is to a proxy
	webSocket       bool
	bodyResult      chan error // the result of sending the body
	expectsContinue bool       // before it sends the body
}

// serveHTTP decides on each request of a connection.
func (c *conn) serveHTTP() {
	(&httpConn{c: c, proto: "http"}).run()
}

func (hc *httpConn) run() {
	for hc.serveRequest() {
	}
}

// serveRequest serves one request. It returns false if the connection has ended or was hijacked.
func (hc *httpConn) serveRequest() bool {
	hc.releaseHead = func() {}
	r, err := hc.readRequest()
	defer func() { hc.releaseHead() }()
	if err != nil {
		hc.rejectUnreadable(err)
		return false
	}
	hc.c.s = hc.c.s.current()
	if hc.isProxy && !hc.route(r) {
		return false
	}
	if v := hc.decide(r); !v.Allow {
		hc.respond(http.StatusForbidden, hc.deny(r, v))
		return false
	}
	hc.unwatch = hc.watch(r, hc.c.abort)
	reusable := hc.forward(r)
	hc.unwatch()
	if !reusable {
		return false
	}
	if err := hc.waitNext(); err != nil {
		hc.end()
		return false
	}
	return true
}

// waitNext waits for the next request without a buffer.
func (hc *httpConn) waitNext() error {
	c := hc.c
	_ = c.conn.SetReadDeadline(time.Time{})
	if hc.up != nil && hc.up.in.Buffered() > 0 {
		return errHead("the server sent more than its response")
	}
	if c.in.Buffered() > 0 {
		return nil
	}
	if _, tcp := c.conn.(*net.TCPConn); tcp {
		putReader(c.in)
		c.in = nil
		if hc.up != nil {
			drainReader(&hc.up.in) // it's empty: the response is over
		}
		if err := waitReadable(c.conn); err != nil {
			return err
		}
		c.in = getReader(c.conn)
	}
	_, err := c.in.Peek(1)
	return err
}

// readRequest reads a request and parses its target.
func (hc *httpConn) readRequest() (*request, error) {
	_ = hc.c.conn.SetReadDeadline(time.Now().Add(hc.c.s.helloTimeout))
	raw, err := readHead(hc.c.in, func() (err error) {
		hc.releaseHead, err = hc.c.s.budget.reserve(headCost)
		return err
	})
	_ = hc.c.conn.SetReadDeadline(time.Time{})
	if err != nil {
		return nil, err
	}
	parsed, err := parseHead(raw)
	if err != nil {
		return nil, err
	}
	r := &request{head: parsed}
	r.checkUpgrade()
	return r, hc.resolveTarget(r)
}

// checkUpgrade removes a change of protocol, except to a WebSocket, which has schemes of its own.
func (r *request) checkUpgrade() {
	r.webSocket = strings.EqualFold(r.single("Upgrade"), "websocket") && r.method == http.MethodGet && r.listContains("Connection", "upgrade") && r.version == "HTTP/1.1" && r.length == 0
	if !r.webSocket {
		r.remove("Upgrade", "HTTP2-Settings")
	}
}

// deny reports a denied request.
func (hc *httpConn) deny(r *request, v decision) errorBody {
	method, url := r.method, r.url
	if v.url != "" {
		method, url = v.target.Method, v.url
	}
	return newErrorBody(method, hc.c.deny(hc.proto, method, v, url))
}

// denyOverLimit reports a request that exceeds a limit of time or memory.
func (hc *httpConn) denyOverLimit(method, url string, err error) errorBody {
	return newErrorBody(method, hc.c.deny(hc.proto, method, overLimit(err.Error()), url))
}

// denyMalformed reports a request that can't be decided on.
func (hc *httpConn) denyMalformed(err error) errorBody {
	return newErrorBody("", hc.c.deny(hc.proto, "", mismatch(err.Error()), hc.origin()))
}

// decide decides on a request and on all of its alternatives.
func (hc *httpConn) decide(r *request) decision {
	r.dest.Method = r.method
	v := hc.decideTarget(r)
	decide := hc.c.decide
	if r.viaProxy {
		decide = hc.decideProxied
	}
	for i := 0; v.Allow && i < len(r.alternatives); i++ {
		if o := decide(&r.alternatives[i]); !o.Allow {
			o.url, o.note = r.alternatives[i].String(), "a header field asks for another path or method"
			if o.target.Method == "" {
				o.target = r.alternatives[i]
			}
			return o
		}
	}
	return v
}

// decideTarget decides on a request's own target. Where that isn't the connection's server, both the server as a proxy and the target must
// be allowed.
func (hc *httpConn) decideTarget(r *request) decision {
	if hc.tlsHost != "" && hostOf(&r.dest) != hc.tlsHost {
		return mismatch("TLS was for " + hc.tlsHost)
	}
	if r.method != http.MethodConnect {
		v := hc.c.decide(&r.dest)
		if !r.viaProxy || v.Allow {
			r.removeProxyForm()
			return v
		}
		if v.Reason != policy.HostMismatch {
			return v
		}
		return hc.decideProxied(&r.dest)
	}
	if v := hc.decideProxy(&netname.Target{Method: r.method}); !v.Allow {
		return v
	}
	return hc.decideTunnel(&r.dest)
}

// decideProxied decides on the target of a request to a proxy. The server may be no proxy: an ordinary server ignores the scheme and port
// of a URL and serves the path itself, for the URL's host or for its default one.
func (hc *httpConn) decideProxied(t *netname.Target) decision {
	if r := hc.decideProxy(t); !r.Allow {
		return r
	}
	c := hc.c.s.Policy
	out := decision{Verdict: c.CheckNet(t), target: *t}
	if !out.Allow {
		return out
	}
	served := *t
	served.Scheme, served.Port = map[string]string{"http": "http", "https": "http", "ws": "ws", "wss": "ws"}[t.Scheme], hc.c.to.Port()
	own := decision{Verdict: c.CheckNet(&served), target: served}
	if own.Reason == policy.HostNotListed {
		switch same, err := hc.c.resolvesHere(t); {
		case err != nil:
			return mismatch("toolguard can't find out whether this is the server of that name: " + err.Error())
		case !same:
			return out
		}
	}
	if !own.Allow {
		own.note = "a server that is no proxy would serve " + served.Scheme + "://" + served.HostPort()
		return own
	}
	return out
}

// removeProxyForm changes a request in proxy form into one for the server itself.
func (r *request) removeProxyForm() {
	if r.viaProxy {
		r.viaProxy = false
		_, _, tail, _ := splitURL(r.head.target)
		r.head.target = originForm(tail)
	}
}

// decideProxy decides on using the connection's server as a proxy. If it's no proxy, its default host gets the path.
func (hc *httpConn) decideProxy(want *netname.Target) decision {
	t, ok := hc.c.defaultTarget("http", hc.c.names())
	if !ok {
		return mismatch("the proxy's address has several names")
	}
	t.Method, t.Path, t.Odd = want.Method, want.Path, want.Odd
	return hc.c.decide(&t)
}

// decideTunnel decides whether a tunnel could be used for anything. Its content is decided on when it comes.
func (hc *httpConn) decideTunnel(t *netname.Target) decision {
	c := hc.c.s.Policy
	out := decision{Verdict: c.CheckNet(t), target: *t}
	if out.Allow {
		return out
	}
	if t.Host != "" {
		ways, _ := c.Ways(t.Host)
		for _, w := range ways {
			if w.Target.Port == t.Port && w.Target.Protocol == "tcp" {
				return decision{Verdict: w.Verdict, target: w.Target}
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
			return decision{Verdict: v, target: at}
		}
	}
	return out
}

// rejectUnreadable ends a connection on which no request could be read.
func (hc *httpConn) rejectUnreadable(err error) {
	var malformed errHead
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		hc.respond(http.StatusRequestTimeout, hc.denyOverLimit("", hc.origin(), errors.New(noteSlow)))
	case errors.Is(err, errBudget):
		hc.respond(http.StatusServiceUnavailable, hc.denyOverLimit("", hc.origin(), err))
	case errors.As(err, &malformed) || errors.Is(err, errTooLong):
		hc.respond(http.StatusBadRequest, hc.denyMalformed(err))
	case errors.Is(err, io.ErrUnexpectedEOF):
		hc.c.reset()
		hc.closeUpstream()
	default:
		hc.end()
	}
}

// origin returns the server as a URL.
func (hc *httpConn) origin() string {
	if hc.isProxy && hc.routed == "" {
		return "http://localhost"
	}
	if hc.tlsHost != "" {
		return "https://" + hc.c.hostPort(hc.tlsHost)
	}
	return "http://" + hc.c.destination()
}

// end closes both connections.
func (hc *httpConn) end() {
	hc.closeUpstream()
	hc.c.finish()
}

func (hc *httpConn) closeUpstream() {
	if hc.up != nil {
		hc.up.close()
		hc.up = nil
	}
}
