package egress

import (
	"errors"
	"io"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// NoKernel is the Kernel of a Server that is a proxy: it redirects no connection, and has none to permit.
type NoKernel struct{}

var errNoKernel = errors.New("nothing redirects connections here")

// Original fails.
func (NoKernel) Original(_, _ netip.AddrPort) (netip.AddrPort, event.Observed, error) {
	return netip.AddrPort{}, event.Observed{}, errNoKernel
}

// Sender fails.
func (NoKernel) Sender(_, _ netip.AddrPort) (event.Observed, error) {
	return event.Observed{}, errNoKernel
}

// Permit does nothing: the session's sandbox lets it connect to the proxy alone.
func (NoKernel) Permit(uint32, string, netip.AddrPort, time.Time) error { return nil }

// maxDials limits the addresses of a name that are tried.
const maxDials = 4

// serveProxy serves a client for which egress is an HTTP proxy. Each request names its server.
func (c *conn) serveProxy() {
	_ = c.conn.SetReadDeadline(time.Now().Add(firstByteTimeout))
	if waitReadable(c.conn) != nil {
		c.close()
		return
	}
	c.in = getReader(c.conn)
	(&httpConn{c: c, proto: "http", isProxy: true}).run()
}

// route connects to the server that a request names, if the policy allows the server, as it is reached by name: the name is resolved here, and its
// address must be allowed as well. A tunnel is served to its end. route returns false if the client's connection has ended, or is a tunnel.
func (hc *httpConn) route(r *request) bool {
	r.remove("Proxy-Connection", "Proxy-Authorization")
	tunnel := r.method == http.MethodConnect
	switch {
	case !r.viaProxy:
		hc.respond(http.StatusBadRequest, hc.denyMalformed(errHead("this is a proxy, and the request names no server")))
		return false
	case r.dest.Scheme == "https" || r.dest.Scheme == "wss":
		hc.respond(http.StatusBadRequest, hc.denyMalformed(errHead("TLS through a proxy needs a tunnel, by CONNECT")))
		return false
	case !tunnel && hc.up != nil && hc.routed == r.dest.HostPort():
		return true
	}
	hc.closeUpstream()
	r.dest.Method = r.method
	v := decision{Verdict: hc.c.s.Policy.CheckNet(&r.dest), target: r.dest}
	if tunnel {
		v = hc.decideTunnel(&r.dest)
	}
	if !v.Allow {
		hc.respond(http.StatusForbidden, hc.deny(r, v))
		return false
	}
	if err := hc.connectTo(&r.dest, &v); err != nil {
		hc.respond(http.StatusBadGateway, errorBody{Error: "toolguard can't reach the server", Target: r.url, Method: r.method, Note: err.Error()})
		return false
	}
	hc.routed = r.dest.HostPort()
	if tunnel {
		hc.serveTunnel(&r.dest)
	}
	return !tunnel
}

// connectTo connects to one of a target's allowed addresses.
func (hc *httpConn) connectTo(t *netname.Target, allowed *decision) error {
	c := hc.c
	failed := errors.New("it has no address that the policy allows")
	if t.Addr.IsValid() {
		return hc.dialServer(netip.AddrPortFrom(t.Addr, t.Port))
	}
	ways, _ := c.s.Policy.Ways(t.Host)
	if len(ways) == 0 { // allowed by default
		ways = []policy.Way{{Target: allowed.target, Verdict: allowed.Verdict}}
	}
	if v, err := c.s.checkLength(t.Host, ways); err != nil {
		c.deny("dns", "", decision{Verdict: v, note: err.Error()}, "dns://"+t.Host)
		return err
	}
	tried := 0
	for _, typ := range []dnsmessage.Type{dnsmessage.TypeA, dnsmessage.TypeAAAA} {
		a := c.s.addresses(c.ctx, c.client.denial("dns"), t.Host, ways, typ)
		if a.Why != "" {
			failed = errors.New(a.Why)
		}
		for _, addr := range a.Addrs {
			if v := c.s.checkAddress(&allowed.target, addr, c.s.IsOwn(addr)); !v.Allow {
				about := atAddress(&allowed.target, addr)
				c.deny("http", "", decision{Verdict: v, target: about, note: t.Host + " resolves to it"}, "tcp://"+about.HostPort())
				continue
			}
			if tried++; tried > maxDials {
				return failed
			}
			if err := hc.dialServer(netip.AddrPortFrom(addr, t.Port)); err != nil {
				failed = err
				continue
			}
			return nil
		}
	}
	return failed
}

func (hc *httpConn) dialServer(to netip.AddrPort) error {
	up, err := hc.c.s.dial(hc.c.ctx, to)
	if err != nil {
		return err
	}
	hc.up, hc.c.to, hc.c.isOwn = &upstream{conn: up}, to, hc.c.s.IsOwn(to.Addr())
	return nil
}

// serveTunnel decides on the content of a tunnel, as for one through another proxy.
func (hc *httpConn) serveTunnel(t *netname.Target) {
	hc.releaseHead()
	c := hc.c
	if _, err := io.WriteString(c.conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		hc.closeUpstream()
		c.close()
		return
	}
	tunnel := &conn{s: c.s, ctx: c.ctx, client: c.client, conn: c.conn, in: c.in, cancel: c.cancel, stop: c.stop, via: hc.up}
	c.in, c.stop, hc.up = nil, nil, nil
	tunnel.to, tunnel.tunnelHost, tunnel.isOwn = netip.AddrPortFrom(t.Addr, t.Port), t.Host, c.isOwn
	tunnel.serve()
}
