package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// intercept ends TLS here and decides on each request. The server is spoken to first, so that the client is offered the protocol
// that the server chose, and nothing at all where it can't be verified.
func (f *conn) intercept(h *hello, t netname.Target) {
	if r := f.decideName(&t); !r.Allow {
		f.refuseTLS(r, t.String())
		return
	}
	giveBack, err := f.s.budget.take(holds(h))
	if err != nil {
		f.refuseTLS(decision{Verdict: slow, note: err.Error()}, t.String())
		return
	}
	up, err := f.connectTLS(f.ctx, h, &t)
	if err != nil {
		giveBack()
		if errors.Is(err, errBudget) {
			f.refuseTLS(decision{Verdict: slow, note: err.Error()}, t.String())
			return
		}
		note := "no TLS with the server: " + err.Error()
		if !isGone(err) {
			f.refuseTLS(decision{Verdict: mismatch, note: note}, t.String())
			return
		}
		f.finish()
		return
	}
	c, err := f.acceptTLS(h, &t, up.ConnectionState().NegotiatedProtocol, giveBack)
	if err != nil {
		giveBack()
		up.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			f.deny("tls", "", decision{Verdict: slow, note: "too slow to agree on TLS"}, t.String())
		} else if !isGone(err) {
			f.deny("tls", "", decision{Verdict: mismatch, note: "no TLS with the client, which must believe the session's authority: " + err.Error()}, t.String())
		}
		f.close()
		return
	}
	inner := &conn{s: f.s, ctx: f.ctx, client: f.client, to: f.to, own: f.own, tunnel: f.tunnel, conn: c, cancel: f.cancel, stop: f.stop, via: &upstream{conn: up}}
	f.stop = nil
	k := &httpConn{f: inner, proto: "tls", name: hostOf(&t)}
	if c.ConnectionState().NegotiatedProtocol == "h2" {
		k.serveH2(c, up, func(ctx context.Context) (net.Conn, error) {
			if f.via != nil {
				return nil, errors.New("the tunnel has ended, or is in use")
			}
			return f.connectTLS(ctx, h, &t)
		})
		return
	}
	inner.in = borrow(c)
	if _, err := inner.in.Peek(1); err != nil {
		inner.close()
		return
	}
	k.run()
}

// isGone says whether TLS has failed only as the other end wasn't reached, or isn't there any more.
func isGone(err error) bool {
	gone := []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded}
	return slices.ContainsFunc(gone, func(e error) bool { return errors.Is(err, e) }) || errors.As(err, new(*os.SyscallError))
}

// decideName is whether a connection may be used for anything; each request is decided on by itself.
func (f *conn) decideName(t *netname.Target) decision {
	r := f.decide(t)
	if r.Allow || r.Reason == policy.HostMismatch {
		return r
	}
	wss := *t
	wss.Scheme = "wss"
	if w := f.decide(&wss); w.Allow || t.Host == "" {
		return w
	}
	ways, _ := f.s.Policy.Ways(t.Host)
	i := slices.IndexFunc(ways, func(w policy.Way) bool {
		return w.Target.Port == t.Port && (w.Target.Scheme == "https" || w.Target.Scheme == "wss")
	})
	switch {
	case i < 0:
		return r
	case !f.tied(t):
		return f.untied(t)
	}
	return f.checkAddr(&ways[i].Target, ways[i].Verdict)
}

// hostOf is the name or address of a target, as a certificate has it.
func hostOf(t *netname.Target) string {
	if t.Addr.IsValid() {
		return t.Addr.String()
	}
	return t.Host
}

// holds is what TLS with a client, or with the server in its stead, can hold.
func holds(h *hello) int64 {
	if slices.Contains(h.protocols, "h2") {
		return holdsH2
	}
	return holdsTLS
}

// connectTLS speaks TLS with the server, as the client would, until life ends at the latest.
func (f *conn) connectTLS(life context.Context, h *hello, t *netname.Target) (*tls.Conn, error) {
	giveBack, err := f.s.budget.take(holds(h))
	if err != nil {
		return nil, err
	}
	raw, err := f.connect()
	if err != nil {
		giveBack()
		return nil, err
	}
	cfg := f.s.verify.Clone()
	cfg.ServerName = hostOf(t)
	for _, p := range []string{"h2", "http/1.1"} {
		if slices.Contains(h.protocols, p) {
			cfg.NextProtos = append(cfg.NextProtos, p)
		}
	}
	stop := context.AfterFunc(life, func() {
		giveBack()
		raw.conn.Close()
	})
	up := tls.Client(&counted{raw.conn, func() {
		stop()
		giveBack()
	}}, cfg)
	ctx, cancel := context.WithTimeout(life, dialTime)
	defer cancel()
	if err := up.HandshakeContext(ctx); err != nil {
		up.Close()
		return nil, err
	}
	return up, nil
}

// acceptTLS speaks TLS with the client, whose hello was read already.
func (f *conn) acceptTLS(h *hello, t *netname.Target, protocol string, giveBack func()) (*tls.Conn, error) {
	leaf, err := f.s.CA.leaf(hostOf(t))
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{*leaf}}
	if protocol != "" {
		cfg.NextProtos = []string{protocol}
	}
	first := append(h.bytes, f.rest()...)
	c := tls.Server(&replay{&counted{f.conn, giveBack}, first}, cfg)
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
