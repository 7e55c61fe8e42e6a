package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/egress/relay"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

const (
	firstByteTimeout           = 5 * time.Minute        // for the client's first byte
	rawLineTimeout             = 500 * time.Millisecond // for a possible request line, on a port that is granted as raw
	defaultHelloTimeout        = 10 * time.Second       // for a whole hello or head, from its first byte
	defaultClientCheckInterval = 10 * time.Second
	defaultHalfCloseTimeout    = 10 * time.Minute
	closeTimeout               = 2 * time.Second // for the client to read the denial
)

// conn is a connection of the session, or the content of a tunnel through a proxy.
type conn struct {
	s           *Server
	ctx         context.Context
	client      client
	to          netip.AddrPort // for a tunnel to a name, only the port
	isOwn       bool           // to is an address of this machine
	conn        net.Conn       // to the client
	in          *bufio.Reader  // on conn; nil while idle
	cancel      func()         // ends the connection
	stop        func() bool
	pinnedNames []string // for names, when the connection is decided again

	early      *early    // nil when used
	tunnelHost string    // the name of the tunnel's target
	via        *upstream // the tunnel
}

// readers has the buffers of connections that aren't idle.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4096) }}

func getReader(c io.Reader) *bufio.Reader {
	r := readers.Get().(*bufio.Reader)
	r.Reset(c)
	return r
}

func putReader(r *bufio.Reader) {
	r.Reset(nil)
	readers.Put(r)
}

// serve decides on a connection by its first bytes and by the policy in force at that time.
func (c *conn) serve() {
	raw := c.decideRaw(c.names())
	_ = c.conn.SetReadDeadline(time.Now().Add(firstByteTimeout)) // before dialEarly, which may end the wait
	if raw.Allow {
		c.dialEarly()
	}
	kind, err := c.detectProtocol(raw.Allow)
	serverFirst := c.early.serverSpokeFirst() && err != nil
	_ = c.conn.SetReadDeadline(time.Now().Add(c.s.helloTimeout))
	c.s = c.s.current()
	names := c.names()
	raw = c.decideRaw(names)
	switch {
	case serverFirst, errors.Is(err, errNoData) && c.early != nil, errors.Is(err, errIncomplete) && raw.Allow && !c.isWebPort():
		c.serveRaw(raw)
	case errors.Is(err, errIncomplete):
		c.denyRawAndReset(overLimit(noteSlow))
	case err != nil:
		c.close() // the client sent nothing
	case kind == protocolTLS:
		c.serveTLS(names, raw)
	case kind == protocolHTTP:
		c.serveHTTP()
	default:
		c.serveRaw(raw)
	}
}

// isWebPort reports whether clients speak first on the port.
func (c *conn) isWebPort() bool { return c.to.Port() == 80 || c.to.Port() == 443 }

// names returns the names of the connection's address.
func (c *conn) names() []string {
	switch {
	case c.pinnedNames != nil:
		return c.pinnedNames
	case c.tunnelHost != "":
		return []string{c.tunnelHost}
	}
	return c.s.namesOf(c.to.Addr())
}

// connect returns a connection to the server, the early one if there is one.
func (c *conn) connect() (*upstream, error) {
	if e := c.early; e != nil {
		c.early = nil
		return e.use()
	}
	return c.dial(c.ctx)
}

// dial connects to the server. A tunnel is connected.
func (c *conn) dial(ctx context.Context) (*upstream, error) {
	if c.via != nil {
		return c.via, nil
	}
	server, err := c.s.dial(ctx, c.to)
	return &upstream{conn: server}, err
}

// serveRaw forwards everything, or resets the connection.
func (c *conn) serveRaw(r decision) {
	if !r.Allow {
		c.denyRawAndReset(r)
		return
	}
	c.forwardRaw(nil)
}

// forwardRaw forwards a connection that was allowed as raw.
func (c *conn) forwardRaw(first []byte) {
	c.onClose(c.watch(func(c *conn) decision { return c.decideRaw(c.names()) }, (*conn).denyRaw, c.abort))
	c.forward(first)
}

// forward connects to the server, sends first, and copies both ways.
func (c *conn) forward(first []byte) {
	up, err := c.connect()
	if err != nil {
		c.reset()
		return
	}
	_ = c.conn.SetReadDeadline(time.Time{})
	first = append(first, drainReader(&c.in)...)
	_, err = up.conn.Write(first)
	if err == nil {
		_, err = c.conn.Write(drainReader(&up.in))
	}
	if err != nil {
		up.close()
		c.reset()
		return
	}
	c.copyBoth(up.conn)
}

// copyBoth copies until both sides have ended. New goroutines have small stacks; the decisions have grown this one.
func (c *conn) copyBoth(up net.Conn) {
	stop := context.AfterFunc(c.ctx, func() { up.Close() })
	var sent sync.WaitGroup
	sent.Add(1)
	done := make(chan struct{})
	firstEnd := sync.OnceFunc(func() { c.s.running.Go(func() { c.s.closeIdleHalf(done, c.conn, up) }) })
	c.s.running.Go(func() {
		defer sent.Done()
		relay.Copy(up, c.conn)
		firstEnd()
	})
	c.s.running.Go(func() {
		relay.Copy(c.conn, up)
		firstEnd()
		sent.Wait()
		close(done)
		stop()
		up.Close()
		c.close()
	})
}

// deny reports a denial of a target.
func (c *conn) deny(protocol, method string, r decision, target string) explain.Answer {
	d := c.client.denial(protocol)
	d.To, d.Method = c.to, method
	return c.s.deny(d, r, target)
}

func (c *conn) denyRawAndReset(r decision) {
	c.denyRaw(r)
	c.reset()
}

func (c *conn) denyRaw(r decision) { c.deny("raw", "", r, "tcp://"+c.destination()) }

// destination returns the server's host and port, by name if the address has only one.
func (c *conn) destination() string {
	switch names := c.names(); {
	case len(names) == 1:
		return c.hostPort(names[0])
	case c.to.Addr().IsValid():
		return c.to.String()
	}
	return c.hostPort("")
}

func (c *conn) hostPort(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(int(c.to.Port())))
}

// reset closes the connection with RST.
func (c *conn) reset() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	c.close()
}

// abort resets the connection and cancels its context, for the goroutine that serves it.
func (c *conn) abort() {
	if tcp := tcpOf(c.conn); tcp != nil {
		_ = tcp.SetLinger(0)
	}
	c.cancel()
}

// finish closes the connection after the client has read the response. Closing at once would send RST while the client still sends.
func (c *conn) finish() {
	if half, ok := c.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
		_ = c.conn.SetReadDeadline(time.Now().Add(closeTimeout))
		_, _ = io.Copy(io.Discard, c.conn)
	}
	c.close()
}

func (c *conn) close() {
	c.conn.Close()
	if c.early != nil {
		c.early.discard()
		c.early = nil
	}
	if c.via != nil {
		c.via.close()
	}
	drainReader(&c.in)
	if c.stop != nil {
		c.stop()
		<-c.s.connSlots
		c.stop = nil
	}
}
