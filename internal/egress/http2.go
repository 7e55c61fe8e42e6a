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
)

// serveH2 decides on the requests of an HTTP/2 connection. up is the connection to the server; redial makes another one if it ends.
func (hc *httpConn) serveH2(c, up net.Conn, redial func(context.Context) (net.Conn, error)) {
	defer hc.c.close()
	ctx, cancel := context.WithCancel(hc.c.ctx)
	defer cancel() // the transport closes idle connections only; a cancelled request may still have one
	h2Only := new(http.Protocols)
	h2Only.SetHTTP2(true)
	first := make(chan net.Conn, 1)
	first <- up
	transport := &http.Transport{
		Protocols: h2Only, DisableCompression: true, MaxResponseHeaderBytes: maxHead,
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
	h2Unencrypted := new(http.Protocols)
	h2Unencrypted.SetUnencryptedHTTP2(true) // TLS ends in intercept
	noLog := log.New(io.Discard, "", 0)
	proxy := &httputil.ReverseProxy{
		Rewrite: hc.rewriteH2, Transport: transport, FlushInterval: -1, ErrorLog: noLog,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if errors.Is(err, errBudget) {
				writeErrorBody(w, http.StatusServiceUnavailable, hc.denyOverLimit(r.Method, hc.origin(), err))
				return
			}
			writeErrorBody(w, http.StatusBadGateway, errorBody{Error: "toolguard can't reach the server", Method: r.Method, Note: err.Error()})
		},
	}
	monitor := newH2Monitor(c, func(d decision) { hc.c.deny(hc.proto, "", d, hc.origin()) })
	l := newSingleListener(monitor)
	server := &http.Server{
		Protocols: h2Unencrypted, ReadHeaderTimeout: hc.c.s.helloTimeout, MaxHeaderBytes: maxHead, ErrorLog: noLog,
		HTTP2:       &http.HTTP2Config{MaxConcurrentStreams: h2Streams, MaxReadFrameSize: h2Frame, MaxReceiveBufferPerConnection: h2Window, MaxReceiveBufferPerStream: h2Window},
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { hc.serveStream(&responder{w, monitor}, r, proxy) }),
		BaseContext: func(net.Listener) context.Context { return hc.c.ctx },
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				l.Close()
			}
		},
	}
	_ = server.Serve(l) // until the connection ends
}

// rewriteH2 writes the request as it was decided on.
func (hc *httpConn) rewriteH2(p *httputil.ProxyRequest) {
	p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host, p.Out.URL.RawQuery = "https", hc.tlsHost, p.In.Host, p.In.URL.RawQuery
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "User-Agent"} {
		p.Out.Header[name] = p.In.Header[name] // unchanged
	}
}

// serveStream decides on one HTTP/2 request.
func (hc *httpConn) serveStream(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	c := *hc.c
	c.s = c.s.current()
	hc = &httpConn{c: &c, proto: hc.proto, tlsHost: hc.tlsHost}
	release, err := c.s.budget.reserve(requestCost(r))
	if err != nil {
		clear(r.Header) // the stream keeps it until the client has read the response
		writeErrorBody(w, http.StatusServiceUnavailable, hc.denyOverLimit("", hc.origin(), err))
		return
	}
	defer release()
	req := &request{head: &head{method: r.Method, target: r.RequestURI, version: "HTTP/1.1", host: r.Host, hasHost: true}}
	for name, values := range r.Header {
		for _, v := range values {
			req.fields = append(req.fields, field{name, v})
		}
	}
	switch err = req.parseFraming(); {
	case err != nil:
	case req.host != r.Host:
		err = errHead("its Host isn't its authority")
	case strings.ContainsFunc(r.Method, invalidMethodRune) || !strings.HasPrefix(r.RequestURI, "/") || strings.ContainsFunc(r.RequestURI, invalidTargetRune):
		err = errHead("its path or method is invalid")
	default:
		err = hc.resolveTarget(req)
	}
	if err != nil {
		writeErrorBody(w, http.StatusBadRequest, hc.denyMalformed(err))
		return
	}
	if v := hc.decide(req); !v.Allow {
		writeErrorBody(w, http.StatusForbidden, hc.deny(req, v))
		return
	}
	r.Host = req.host
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer hc.watch(req, cancel)()
	proxy.ServeHTTP(w, r.WithContext(ctx))
}

// requestCost is the memory for a request until it is answered.
func requestCost(r *http.Request) int64 {
	n := streamCost + int64(len(r.RequestURI)+len(r.Host))
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

func writeErrorBody(w http.ResponseWriter, status int, r errorBody) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(r.json())
}

// singleListener is a listener with one connection.
type singleListener struct {
	net.Conn
	next chan net.Conn
	once sync.Once
}

func newSingleListener(c net.Conn) *singleListener {
	s := &singleListener{Conn: c, next: make(chan net.Conn, 1)}
	s.next <- c
	return s
}

func (s *singleListener) Accept() (net.Conn, error) {
	c, ok := <-s.next
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}

func (s *singleListener) Close() error {
	s.once.Do(func() { close(s.next) })
	return nil
}

func (s *singleListener) Addr() net.Addr { return s.LocalAddr() }
