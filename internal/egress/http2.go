package egress

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"

	"github.com/toolguard/toolguard/internal/policy"
)

// serveH2 decides on the requests of an HTTP/2 connection, of which the server's side is up. redial makes another one when that has ended, for as long as the client's.
func (k *httpConn) serveH2(c, up net.Conn, redial func(context.Context) (net.Conn, error)) {
	defer k.f.close()
	ctx, cancel := context.WithCancel(k.f.ctx)
	defer cancel() // a transport closes what is idle, and a request that was given up may have its connection still
	only := new(http.Protocols)
	only.SetHTTP2(true)
	first := make(chan net.Conn, 1)
	first <- up
	transport := &http.Transport{
		Protocols: only, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
		HTTP2: &http.HTTP2Config{MaxReadFrameSize: h2Frame, MaxReceiveBufferPerConnection: h2Window, MaxReceiveBufferPerStream: h2Window},
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			select {
			case up := <-first:
				return up, nil
			default:
				return redial(ctx)
			}
		},
	}
	plain := new(http.Protocols)
	plain.SetUnencryptedHTTP2(true) // TLS was ended here already
	silent := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: k.rewriteH2, Transport: transport, FlushInterval: -1, ErrorLog: silent,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, errBudget) {
				writeRefusal(w, http.StatusServiceUnavailable, k.limited(r.Method, k.origin(), err))
				return
			}
			writeRefusal(w, http.StatusBadGateway, refusal{Error: "toolguard can't reach the server", Method: r.Method, Note: err.Error()})
		},
	}
	heard := newRefused2(c, func(v policy.Verdict, note string) {
		k.f.deny(k.proto, "", decision{Verdict: v, note: note}, k.origin())
	})
	l := newSingle(heard)
	server := &http.Server{
		Protocols: plain, ReadHeaderTimeout: k.f.s.hello, MaxHeaderBytes: maxHead, ErrorLog: silent,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: h2Streams, MaxReadFrameSize: h2Frame, MaxReceiveBufferPerConnection: h2Window, MaxReceiveBufferPerStream: h2Window},
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { k.serveStream(&responder{w, heard}, r, proxy) }),
		BaseContext: func(net.Listener) context.Context { return k.f.ctx },
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				l.Close()
			}
		},
	}
	_ = server.Serve(l) // until the connection ends
}

// rewriteH2 passes a request on as it was decided on.
func (k *httpConn) rewriteH2(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host, p.Out.URL.RawQuery = "https", k.name, p.In.Host, p.In.URL.RawQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "User-Agent"} {
		p.Out.Header[name] = p.In.Header[name] // as they were, or none
	}
}

// serveStream decides on one request of HTTP/2.
func (k *httpConn) serveStream(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	f := *k.f
	f.s = f.s.now()
	k = &httpConn{f: &f, proto: k.proto, name: k.name}
	giveBack, err := f.s.budget.take(weight(r))
	if err != nil {
		clear(r.Header) // the stream holds it until the client has read why
		writeRefusal(w, http.StatusServiceUnavailable, k.limited("", k.origin(), err))
		return
	}
	defer giveBack()
	req := &request{head: &head{method: r.Method, target: r.RequestURI, version: "HTTP/1.1", host: r.Host, hasHost: true}}
	for name, values := range r.Header {
		for _, v := range values {
			req.fields = append(req.fields, field{name, v})
		}
	}
	switch err = req.frame(); {
	case err != nil:
	case req.host != r.Host:
		err = errHead("its Host isn't its authority")
	case strings.ContainsFunc(r.Method, notMethod) || !strings.HasPrefix(r.RequestURI, "/") || strings.ContainsFunc(r.RequestURI, notInTarget):
		err = errHead("its path or method isn't a proper one")
	default:
		err = k.target(req)
	}
	if err != nil {
		writeRefusal(w, http.StatusBadRequest, k.wrong(err))
		return
	}
	if v := k.decide(req); !v.Allow {
		writeRefusal(w, http.StatusForbidden, k.deny(req, v))
		return
	}
	r.Host = req.host
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer k.watch(req, cancel)()
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// weight is what a request can hold while it's answered.
func weight(r *http.Request) int64 {
	n := holdsStream + int64(len(r.RequestURI)+len(r.Host))
	for name, values := range r.Header {
		for _, v := range values {
			n += int64(len(name) + len(v))
		}
	}
	if r.ContentLength < 0 || r.ContentLength > maxScratch {
		return n + maxScratch
	}
	return n + r.ContentLength
}

func writeRefusal(w http.ResponseWriter, status int, r refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(r.body())
}

// single is a listener that has one connection.
type single struct {
	net.Conn
	next chan net.Conn
	once sync.Once
}

func newSingle(c net.Conn) *single {
	s := &single{Conn: c, next: make(chan net.Conn, 1)}
	s.next <- c
	return s
}

func (s *single) Accept() (net.Conn, error) {
	c, ok := <-s.next
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *single) Close() error {
	s.once.Do(func() { close(s.next) })
	return nil
}

func (s *single) Addr() net.Addr { return s.LocalAddr() }
