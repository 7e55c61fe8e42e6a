package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"

	"github.com/toolguard/toolguard/internal/policy"
)

// intercept ends TLS here and decides on each request. The server is spoken to first, so that the client is offered the protocol
// that the server chose, and nothing at all where it can't be verified.
func (f *flow) intercept(h *hello, t policy.NetTarget) {
	if v, note := f.decideName(&t); !v.Allow {
		f.refuseTLS(v, t.String(), note)
		return
	}
	up, err := f.connectTLS(h, &t)
	if err != nil {
		note := "no TLS with the server: " + err.Error()
		if errors.As(err, new(*tls.CertificateVerificationError)) {
			f.refuseTLS(mismatch, t.String(), note)
			return
		}
		f.finish()
		return
	}
	c, err := f.acceptTLS(h, &t, up.ConnectionState().NegotiatedProtocol)
	if err != nil {
		up.Close()
		f.close()
		return
	}
	inner := &flow{s: f.s, ctx: f.ctx, client: f.client, to: f.to, tunnel: f.tunnel, conn: c, stop: f.stop, via: &upstream{conn: up}}
	f.in, f.stop = nil, nil
	k := &talk{f: inner, proto: "tls", name: hostOf(&t)}
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		k.serveH2(c, up)
		return
	}
	inner.in = borrow(c)
	if _, err := inner.in.Peek(1); err != nil {
		inner.close()
		return
	}
	k.run()
}

// decideName is whether a connection may be used for anything; each request is decided on by itself.
func (f *flow) decideName(t *policy.NetTarget) (policy.Verdict, string) {
	v, note := f.decideTLS(t)
	if v.Allow || t.Host == "" || v.Reason == policy.HostMismatch {
		return v, note
	}
	ways, _ := f.s.Policy.Ways(t.Host)
	i := slices.IndexFunc(ways, func(w policy.Way) bool {
		return w.Target.Port == t.Port && (w.Target.Scheme == "https" || w.Target.Scheme == "wss")
	})
	switch {
	case i < 0:
		return v, note
	case !f.tied(t.Host):
		return mismatch, t.Host + " isn't what the connection's address was resolved from"
	}
	return f.checkAddr(&ways[i].Target, ways[i].Verdict), ""
}

// hostOf is the name or address of a target, as a certificate has it.
func hostOf(t *policy.NetTarget) string {
	if t.Addr.IsValid() {
		return t.Addr.String()
	}
	return t.Host
}

// connectTLS speaks TLS with the server, as the client would.
func (f *flow) connectTLS(h *hello, t *policy.NetTarget) (*tls.Conn, error) {
	raw, err := f.connect()
	if err != nil {
		return nil, err
	}
	cfg := f.s.verify.Clone()
	cfg.ServerName = hostOf(t)
	for _, p := range []string{"h2", "http/1.1"} {
		if slices.Contains(h.protocols, p) {
			cfg.NextProtos = append(cfg.NextProtos, p)
		}
	}
	up := tls.Client(raw.conn, cfg)
	ctx, cancel := context.WithTimeout(f.ctx, dialTime)
	defer cancel()
	if err := up.HandshakeContext(ctx); err != nil {
		up.Close()
		return nil, err
	}
	return up, nil
}

// acceptTLS speaks TLS with the client, whose hello was read already.
func (f *flow) acceptTLS(h *hello, t *policy.NetTarget, protocol string) (*tls.Conn, error) {
	leaf, err := f.s.CA.leaf(hostOf(t))
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{*leaf}}
	if protocol != "" {
		cfg.NextProtos = []string{protocol}
	}
	first := append(h.bytes, drained(f.in)...)
	c := tls.Server(&replay{f.conn, first}, cfg)
	ctx, cancel := context.WithTimeout(f.ctx, f.s.hello)
	defer cancel()
	return c, c.HandshakeContext(ctx)
}

// replay is a connection of which something was read already.
type replay struct {
	net.Conn
	first []byte
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.first) == 0 {
		r.first = nil
		return r.Conn.Read(p)
	}
	n := copy(p, r.first)
	r.first = r.first[n:]
	return n, nil
}

// serveH2 decides on the requests of an HTTP/2 connection.
func (k *talk) serveH2(c, up *tls.Conn) {
	defer k.f.close()
	cc, err := (&http2.Transport{DisableCompression: true}).NewClientConn(up)
	if err != nil {
		return
	}
	defer cc.Close()
	proxy := &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			p.Out.URL.Scheme, p.Out.URL.Host, p.Out.Host, p.Out.URL.RawQuery = "https", k.name, p.In.Host, p.In.URL.RawQuery
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "User-Agent"} {
				p.Out.Header[name] = p.In.Header[name] // as they were, or none
			}
		},
		Transport: cc, FlushInterval: -1, ErrorLog: log.New(io.Discard, "", 0),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			k.writeRefusal(w, http.StatusBadGateway, refusal{Error: "toolguard can't reach the server", Method: r.Method, Note: err.Error()})
		},
	}
	server := &http2.Server{IdleTimeout: time.Hour}
	server.ServeConn(c, &http2.ServeConnOpts{
		Context:    k.f.ctx,
		BaseConfig: &http.Server{ReadHeaderTimeout: k.f.s.hello, MaxHeaderBytes: maxHead, ErrorLog: log.New(io.Discard, "", 0)},
		Handler:    http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { k.serveStream(w, r, proxy) }),
	})
}

// serveStream decides on one request of HTTP/2.
func (k *talk) serveStream(w http.ResponseWriter, r *http.Request, proxy http.Handler) {
	req := &request{head: &head{method: r.Method, target: r.RequestURI, version: "HTTP/1.1", host: r.Host, hasHost: true}}
	err := error(errHead("its path or method isn't a proper one"))
	if !strings.ContainsFunc(r.Method, notMethod) && strings.HasPrefix(r.RequestURI, "/") && !strings.ContainsFunc(r.RequestURI, notInTarget) {
		err = k.target(req)
	}
	if err != nil {
		k.writeRefusal(w, http.StatusBadRequest, refusing("", k.f.deny(k.proto, "", mismatch, "https://"+k.f.where(), err.Error())))
		return
	}
	if v, note := k.decide(req); !v.Allow {
		k.writeRefusal(w, http.StatusForbidden, refusing(r.Method, k.f.deny(k.proto, r.Method, v, req.url, note)))
		return
	}
	r.Host = req.host
	proxy.ServeHTTP(w, r)
}

func (k *talk) writeRefusal(w http.ResponseWriter, status int, r refusal) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(r.body())
}
