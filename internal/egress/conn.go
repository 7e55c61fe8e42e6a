package egress

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolguard/toolguard/internal/egress/dns"
	"github.com/toolguard/toolguard/internal/egress/relay"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

const (
	quietTime = 5 * time.Minute        // a client may say nothing at first
	lineTime  = 500 * time.Millisecond // on a port that is granted as such, for the end of what could become a request's line
	helloTime = 10 * time.Second       // the whole of a hello or a head, once it has begun
	lookTime  = 10 * time.Second
	halfTime  = 10 * time.Minute
	closeTime = 2 * time.Second // for a client to read why it was denied
)

// conn is a connection of the session, or what is said in a tunnel through a proxy.
type conn struct {
	s      *Server
	ctx    context.Context
	client client
	to     netip.AddrPort // for a tunnel to a name only the port
	own    bool           // it's the machine's own address
	conn   net.Conn       // to the client
	in     *bufio.Reader  // on conn; nil while it's quiet
	cancel func()         // ends it
	stop   func() bool
	known  []string // what names are, where it's decided again

	early  *early    // nil when it's in use
	tunnel string    // the name that a tunnel leads to
	via    *upstream // the tunnel
}

// readers are the buffers of connections on which something is said.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 4096) }}

func borrow(c io.Reader) *bufio.Reader {
	r := readers.Get().(*bufio.Reader)
	r.Reset(c)
	return r
}

func giveBack(r *bufio.Reader) {
	r.Reset(nil)
	readers.Put(r)
}

// serve decides on a connection by what is said first, and by the policy that's in force then.
func (f *conn) serve() {
	raw := f.rawVerdict(f.names())
	_ = f.conn.SetReadDeadline(time.Now().Add(quietTime)) // before reachEarly, which may end the wait
	if raw.Allow {
		f.reachEarly()
	}
	kind, err := f.listen(raw.Allow)
	serverFirst := f.early.spokeFirst() && err != nil
	_ = f.conn.SetReadDeadline(time.Now().Add(f.s.hello))
	f.s = f.s.now()
	names := f.names()
	raw = f.rawVerdict(names)
	switch {
	case serverFirst, errors.Is(err, errSilent) && f.early != nil, errors.Is(err, errSlow) && raw.Allow && !f.web():
		f.serveRaw(raw)
	case errors.Is(err, errSlow):
		f.refuseRaw(decision{Verdict: slow, note: "too slow to say what it wants"})
	case err != nil:
		f.close() // it said nothing
	case kind == protocolTLS:
		f.serveTLS(names, raw)
	case kind == protocolHTTP:
		f.serveHTTP()
	default:
		f.serveRaw(raw)
	}
}

// web says whether the port is one on which clients speak first, by what it's for.
func (f *conn) web() bool { return f.to.Port() == 80 || f.to.Port() == 443 }

// names are those that the connection's address is known by.
func (f *conn) names() []string {
	switch {
	case f.known != nil:
		return f.known
	case f.tunnel != "":
		return []string{f.tunnel}
	}
	return f.s.namesOf(f.to.Addr())
}

// decision is a verdict on what a client wants. about is what a rule would have to grant, if that's something else than what it says, and
// shown how it's reported; note says why, in words.
type decision struct {
	policy.Verdict
	about netname.Target
	shown string
	note  string
}

// rawVerdict is whether anything may be said: some name has the port granted as such, or for a scheme that shows no name, and none
// has it denied. Without names it's the address that counts.
func (f *conn) rawVerdict(names []string) decision {
	t := netname.Target{Protocol: "tcp", Port: f.to.Port(), Addr: f.to.Addr()}
	out := decision{Verdict: notListed, about: t}
	if t.Addr.IsValid() {
		out.Verdict = f.s.Policy.CheckNet(&t)
	}
	for _, n := range names {
		t.Host, t.Addr = n, netip.Addr{}
		switch r := f.checkAddr(&t, f.s.Policy.CheckNet(&t)); {
		case r.Reason == policy.RuleDenies:
			return r
		case r.Allow || !out.Allow:
			out = r
		}
	}
	return out
}

// checkAddr narrows an allowing verdict on a name to the connection's address. Where a tunnel ends is the proxy's business.
func (f *conn) checkAddr(t *netname.Target, v policy.Verdict) decision {
	if !v.Allow || !f.to.Addr().IsValid() {
		return decision{Verdict: v, about: *t}
	}
	if a := f.s.checkAddress(t, f.to.Addr(), f.own); !a.Allow {
		return decision{Verdict: a, about: at(t, f.to.Addr())}
	}
	return decision{Verdict: v, about: *t}
}

// decide is the verdict on a target that the client named.
func (f *conn) decide(t *netname.Target) decision {
	if t.Port != f.to.Port() {
		return decision{Verdict: mismatch, note: "the connection is to another port"}
	}
	if t.Addr.IsValid() {
		if t.Dest() != f.to.Addr() {
			return decision{Verdict: mismatch, note: "the connection is to another address"}
		}
		return decision{Verdict: f.s.Policy.CheckNet(t), about: *t}
	}
	v := f.s.Policy.CheckNet(t)
	switch {
	case v.Reason == policy.HostNotListed:
		return f.byAddress(t, v)
	case !v.Allow:
		return decision{Verdict: v, about: *t}
	case !f.tied(t):
		return f.untied(t)
	}
	return f.checkAddr(t, v)
}

func (f *conn) untied(t *netname.Target) decision {
	return decision{Verdict: mismatch, note: t.Host + " isn't what the connection's address was resolved from"}
}

// mismatch is the verdict on a connection that says it's for somebody else.
var mismatch = policy.Verdict{Reason: policy.HostMismatch, Layer: -1, Rule: policy.NoMatch}

// slow is the verdict on a client that keeps us waiting, or too busy.
var slow = policy.Verdict{Reason: policy.Limit, Layer: -1, Rule: policy.NoMatch}

// notListed is the verdict where nothing is known that a rule could be about.
var notListed = policy.Verdict{Reason: policy.HostNotListed, Layer: -1, Rule: policy.NoMatch}

// byAddress is the verdict on a target whose name no rule is about: what a rule grants by address needs no name.
func (f *conn) byAddress(t *netname.Target, v policy.Verdict) decision {
	if f.to.Addr().IsValid() {
		there := at(t, f.to.Addr())
		if a := f.s.Policy.CheckNet(&there); a.Allow {
			return decision{Verdict: a, about: there}
		}
	}
	return decision{Verdict: v, about: *t}
}

func (f *conn) tied(t *netname.Target) bool {
	if f.known != nil {
		return true
	}
	if !f.to.Addr().IsValid() { // a tunnel to a name
		return t.Host == f.tunnel
	}
	return f.s.tied(f.ctx, f.client, t, f.to.Addr())
}

// here says whether a target leads to the connection's other end, whatever the policy says of that.
func (f *conn) here(t *netname.Target) (bool, error) {
	addr := f.to.Addr()
	switch {
	case t.Addr.IsValid() || !addr.IsValid():
		return t.Addr == addr && t.Host == f.tunnel, nil
	case f.known != nil: // nobody is asked again
		return true, nil
	case slices.Contains(f.names(), t.Host):
		return true, nil
	}
	ways, _ := f.s.Policy.Ways(t.Host)
	if _, err := f.s.tunnel(t.Host, ways); err != nil { // what is asked upstream tells somebody else
		return false, err
	}
	found, err := f.s.find(f.ctx, t.Host, typeOf(addr))
	if errors.Is(err, dns.ErrCode) { // nobody gets there by that name
		err = nil
	}
	return slices.Contains(found.Addrs, addr), err
}

// only is the target that is meant when the client doesn't name it: the one name of the address, or the address if it has none. With
// several it's the address too, where that is granted and none of them denied; or else the one that is.
func (f *conn) only(scheme string, names []string) (t netname.Target, ok bool) {
	t = netname.Target{Scheme: scheme, Protocol: "tcp", Port: f.to.Port()}
	if len(names) == 1 {
		t.Host = names[0]
		return t, true
	}
	for _, t.Host = range names {
		if f.s.Policy.CheckNet(&t).Reason == policy.RuleDenies {
			return t, true
		}
	}
	t.Host, t.Addr = "", f.to.Addr()
	return t, len(names) == 0 || t.Addr.IsValid() && f.s.Policy.CheckNet(&t).Allow
}

// connect reaches what the client wanted to reach.
func (f *conn) connect() (*upstream, error) {
	if e := f.early; e != nil {
		f.early = nil
		return e.take()
	}
	return f.dial(f.ctx)
}

// dial makes a connection to there; a tunnel is there.
func (f *conn) dial(ctx context.Context) (*upstream, error) {
	if f.via != nil {
		return f.via, nil
	}
	c, err := f.s.dial(ctx, f.to)
	return &upstream{conn: c}, err
}

// serveRaw passes everything on, or resets.
func (f *conn) serveRaw(r decision) {
	if !r.Allow {
		f.refuseRaw(r)
		return
	}
	f.passOnRaw(nil)
}

// passOnRaw passes on what was allowed as such.
func (f *conn) passOnRaw(first []byte) {
	f.untilEnd(f.watch(func(f *conn) decision { return f.rawVerdict(f.names()) }, (*conn).denyRaw, f.cut))
	f.passOn(first)
}

// passOn connects and copies both ways: first what was read, then the rest.
func (f *conn) passOn(first []byte) {
	up, err := f.connect()
	if err != nil {
		f.reset()
		return
	}
	_ = f.conn.SetReadDeadline(time.Time{})
	first = append(first, f.rest()...)
	_, err = up.conn.Write(first)
	if err == nil {
		_, err = f.conn.Write(up.rest())
	}
	if err != nil {
		up.close()
		f.reset()
		return
	}
	f.copyBoth(up.conn)
}

// rest gives the reader back, with what it held.
func (f *conn) rest() []byte {
	b := drained(f.in)
	f.in = nil
	return b
}

// copyBoth copies until both sides have ended, on new stacks: what decided has grown this one.
func (f *conn) copyBoth(up net.Conn) {
	stop := context.AfterFunc(f.ctx, func() { up.Close() })
	var sent sync.WaitGroup
	sent.Add(1)
	both := make(chan struct{})
	one := sync.OnceFunc(func() { f.s.done.Go(func() { f.s.endHalf(both, f.conn, up) }) })
	f.s.done.Go(func() {
		defer sent.Done()
		relay.Copy(up, f.conn)
		one()
	})
	f.s.done.Go(func() {
		relay.Copy(f.conn, up)
		one()
		sent.Wait()
		close(both)
		stop()
		up.Close()
		f.close()
	})
}

// deny reports a denial of what a target says.
func (f *conn) deny(protocol, method string, r decision, target string) explain.Answer {
	d := f.client.denial(protocol)
	d.To, d.Method = f.to, method
	return f.s.deny(d, r, target)
}

func (f *conn) refuseRaw(r decision) {
	f.denyRaw(r)
	f.reset()
}

func (f *conn) denyRaw(r decision) { f.deny("raw", "", r, "tcp://"+f.where()) }

// where is the connection's other end, by its name if it has only one.
func (f *conn) where() string {
	switch names := f.names(); {
	case len(names) == 1:
		return f.hostPort(names[0])
	case f.to.Addr().IsValid():
		return f.to.String()
	}
	return f.hostPort("")
}

func (f *conn) hostPort(host string) string {
	return net.JoinHostPort(host, strconv.Itoa(int(f.to.Port())))
}

// reset ends the connection as if nobody had been there.
func (f *conn) reset() {
	if c, ok := f.conn.(*net.TCPConn); ok {
		_ = c.SetLinger(0)
	}
	f.close()
}

// cut ends the connection for who serves it.
func (f *conn) cut() {
	if c := tcpOf(f.conn); c != nil {
		_ = c.SetLinger(0)
	}
	f.cancel()
}

// finish ends the connection so that what was written is read: closing it while the client still sends would reset it.
func (f *conn) finish() {
	if c, ok := f.conn.(interface{ CloseWrite() error }); ok {
		_ = c.CloseWrite()
		_ = f.conn.SetReadDeadline(time.Now().Add(closeTime))
		_, _ = io.Copy(io.Discard, f.conn)
	}
	f.close()
}

func (f *conn) close() {
	f.conn.Close()
	if f.early != nil {
		f.early.drop()
		f.early = nil
	}
	if f.via != nil {
		f.via.close()
	}
	f.rest()
	if f.stop != nil {
		f.stop()
		<-f.s.conns
		f.stop = nil
	}
}
