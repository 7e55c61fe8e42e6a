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

// intercept ends TLS here and decides on each request. It connects to the server first: the client is offered the protocol that the server
// chose, and nothing if the server can't be verified.
func (c *conn) intercept(h *hello, t netname.Target) {
	if r := c.decideConnection(&t); !r.Allow {
		c.denyTLS(r, t.String())
		return
	}
	release, err := c.s.budget.reserve(tlsCost(h))
	if err != nil {
		c.denyTLS(overLimit(err.Error()), t.String())
		return
	}
	up, err := c.connectTLS(c.ctx, h, &t)
	if err != nil {
		release()
		switch {
		case errors.Is(err, errBudget):
			c.denyTLS(overLimit(err.Error()), t.String())
		case isDisconnect(err):
			c.finish()
		default:
			c.denyTLS(mismatch("no TLS with the server: "+err.Error()), t.String())
		}
		return
	}
	client, err := c.acceptTLS(h, &t, up.ConnectionState().NegotiatedProtocol, release)
	if err != nil {
		release()
		up.Close()
		if errors.Is(err, context.DeadlineExceeded) {
			c.deny("tls", "", overLimit("too slow in the TLS handshake"), t.String())
		} else if !isDisconnect(err) {
			c.deny("tls", "", mismatch("no TLS with the client, which must trust the session's authority: "+err.Error()), t.String())
		}
		c.close()
		return
	}
	inner := &conn{s: c.s, ctx: c.ctx, client: c.client, to: c.to, isOwn: c.isOwn, tunnelHost: c.tunnelHost, conn: client, cancel: c.cancel, stop: c.stop, via: &upstream{conn: up}}
	c.stop = nil
	hc := &httpConn{c: inner, proto: "tls", tlsHost: hostOf(&t)}
	if client.ConnectionState().NegotiatedProtocol == "h2" {
		hc.serveH2(client, up, func(ctx context.Context) (net.Conn, error) {
			if c.via != nil {
				return nil, errors.New("the tunnel has ended, or is in use")
			}
			return c.connectTLS(ctx, h, &t)
		})
		return
	}
	inner.in = getReader(client)
	if _, err := inner.in.Peek(1); err != nil {
		inner.close()
		return
	}
	hc.run()
}

// isDisconnect reports whether TLS failed only because the other side is unreachable or has gone.
func isDisconnect(err error) bool {
	gone := []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded}
	return slices.ContainsFunc(gone, func(e error) bool { return errors.Is(err, e) }) || errors.As(err, new(*os.SyscallError))
}

// decideConnection decides whether any request on the connection could be allowed. Each request is decided by itself.
func (c *conn) decideConnection(t *netname.Target) decision {
	r := c.decide(t)
	if r.Allow || r.Reason == policy.HostMismatch {
		return r
	}
	wss := *t
	wss.Scheme = "wss"
	if w := c.decide(&wss); w.Allow || t.Host == "" {
		return w
	}
	ways, _ := c.s.Policy.Ways(t.Host)
	i := slices.IndexFunc(ways, func(w policy.Way) bool {
		return w.Target.Port == t.Port && (w.Target.Scheme == "https" || w.Target.Scheme == "wss")
	})
	switch {
	case i < 0:
		return r
	case !c.isBound(t):
		return c.unboundName(t)
	}
	return c.checkAddr(&ways[i].Target, ways[i].Verdict)
}

// hostOf returns the name or address of a target as it appears in a certificate.
func hostOf(t *netname.Target) string {
	if t.Addr.IsValid() {
		return t.Addr.String()
	}
	return t.Host
}

// tlsCost is the memory for TLS with the client, and for TLS with the server.
func tlsCost(h *hello) int64 {
	if slices.Contains(h.protocols, "h2") {
		return h2ConnCost
	}
	return connCost
}

// connectTLS connects to the server with TLS, as the client would, until life ends.
func (c *conn) connectTLS(life context.Context, h *hello, t *netname.Target) (*tls.Conn, error) {
	release, err := c.s.budget.reserve(tlsCost(h))
	if err != nil {
		return nil, err
	}
	raw, err := c.connect()
	if err != nil {
		release()
		return nil, err
	}
	cfg := c.s.verify.Clone()
	cfg.ServerName = hostOf(t)
	for _, p := range []string{"h2", "http/1.1"} {
		if slices.Contains(h.protocols, p) {
			cfg.NextProtos = append(cfg.NextProtos, p)
		}
	}
	stop := context.AfterFunc(life, func() {
		release()
		raw.conn.Close()
	})
	up := tls.Client(&budgetConn{raw.conn, func() {
		stop()
		release()
	}}, cfg)
	ctx, cancel := context.WithTimeout(life, dialTimeout)
	defer cancel()
	if err := up.HandshakeContext(ctx); err != nil {
		up.Close()
		return nil, err
	}
	return up, nil
}

// acceptTLS does the TLS handshake with the client, whose hello was read.
func (c *conn) acceptTLS(h *hello, t *netname.Target, protocol string, release func()) (*tls.Conn, error) {
	leaf, err := c.s.CA.certificate(hostOf(t))
	if err != nil {
		return nil, err
	}
	cfg := &tls.Config{Certificates: []tls.Certificate{*leaf}}
	if protocol != "" {
		cfg.NextProtos = []string{protocol}
	}
	first := append(h.bytes, drainReader(&c.in)...)
	client := tls.Server(&replayConn{&budgetConn{c.conn, release}, first}, cfg)
	ctx, cancel := context.WithTimeout(c.ctx, c.s.helloTimeout)
	defer cancel()
	return client, client.HandshakeContext(ctx)
}

// replayConn is a connection that returns bytes that were read before.
type replayConn struct {
	net.Conn
	first []byte
}

func (r *replayConn) Read(p []byte) (int, error) {
	if len(r.first) == 0 {
		r.first = nil
		return r.Conn.Read(p)
	}
	n := copy(p, r.first)
	r.first = r.first[n:]
	return n, nil
}
