package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

// Kernel is the other half of the network: what redirects the session's connections here and confines all others to what it's given.
type Kernel interface {
	// Original is where the client of a redirected connection wanted to go, and who that is. An error: it's no redirected connection of
	// the session.
	Original(client, listener netip.AddrPort) (netip.AddrPort, event.Observed, error)
	// Sender is who sent a datagram that was redirected. An error: none of the session did.
	Sender(client, listener netip.AddrPort) (event.Observed, error)
	// Permit lets the session reach an address and port directly until then, by the policy of a generation. A time that has passed lets go on
	// what was let there before.
	Permit(generation uint32, protocol string, to netip.AddrPort, until time.Time) error
}

// Server decides for one session. Its exported fields are set before Serve.
type Server struct {
	Policy     *policy.Compiled
	Generation uint32                  // of that
	Hosts      map[string][]netip.Addr // the addresses that the machine's hosts file gives to names
	Upstream   []netip.AddrPort        // name servers, asked in turn
	Kernel     Kernel
	Tell       func(message.Denial)  // gets every denial and mustn't wait
	CA         *Authority            // for tls_intercept; needed where Policy.Intercepts
	Changes    <-chan Change         // other policies, later; may be nil
	Own        func(netip.Addr) bool // whether an address is the machine's own: ListOwnAddresses

	dial   func(context.Context, netip.AddrPort) (net.Conn, error)
	verify *tls.Config   // how servers are verified where TLS is intercepted
	hello  time.Duration // the patience with a hello or a head that has begun
	half   time.Duration // the quiet after which what has ended on one side ends
	look   time.Duration // after which it's looked again whether who waits for a response is there
	asked  map[uint16]bool
	hosts  hosts
	*shared
}

// Change is another policy, and who is to know what came of it.
type Change struct {
	Policy     *policy.Compiled
	Generation uint32
	Hosts      map[string][]netip.Addr
	Done       func(error)
}

// shared is what the servers of a session have in common: there's one for each policy that it has had.
type shared struct {
	names   nameCache
	asking  chan struct{} // a place for each question that is being answered
	looking chan struct{} // and for each that is being asked upstream
	conns   chan struct{} // and for each connection
	queries atomic.Uint64
	budget  budget
	done    sync.WaitGroup

	turn    sync.RWMutex
	latest  *Server
	passing sync.Map // *passage: all that is passed on
}

// Bounds on what a session may keep busy here.
const (
	maxAsking  = 1024
	maxLooking = 256
	maxConns   = 16384
	otherFiles = 512 // name servers that are asked, pipes, and what else is open
)

// Serve answers DNS on udp, and on tcp what the kernel redirects, until ctx is done.
func (s *Server) Serve(ctx context.Context, tcp []*net.TCPListener, udp []*net.UDPConn) error {
	if s.Policy.Intercepts() && s.CA == nil {
		return errors.New("the policy reads what is said under TLS, which needs an authority")
	}
	s.init()
	s.latest = s
	s.permitHosts()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.done.Go(func() { s.change(ctx) })
	for _, l := range tcp {
		stop := context.AfterFunc(ctx, func() { l.Close() })
		defer stop()
		s.done.Go(func() { cancel(s.accept(ctx, l)) })
	}
	for _, c := range udp {
		stop := context.AfterFunc(ctx, func() { c.Close() })
		defer stop()
		s.done.Go(func() { cancel(s.serveUDP(ctx, c)) })
	}
	<-ctx.Done()
	s.done.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// change has other policies decide as they come.
func (s *Server) change(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-s.Changes:
			c.Done(s.reload(&c))
		}
	}
}

// reload has another policy decide from now on: about what is asked, connections that begin, requests on those that are open, and what is
// passed on already, which ends where it's denied.
func (s *Server) reload(c *Change) error {
	if c.Policy.Intercepts() && s.CA == nil {
		return errors.New("the policy reads what is said under TLS, for which the session was given no authority at its start")
	}
	next := *s
	next.Policy, next.Generation, next.Hosts = c.Policy, c.Generation, c.Hosts
	next.init()
	s.turn.Lock()
	s.latest = &next
	s.turn.Unlock()
	if err := next.permitAgain(); err != nil {
		return err
	}
	next.permitHosts()
	s.passing.Range(func(p, _ any) bool {
		next.again(p.(*passage))
		return true
	})
	return nil
}

// now is the server that decides.
func (s *Server) now() *Server {
	s.turn.RLock()
	defer s.turn.RUnlock()
	return s.latest
}

func (s *Server) init() {
	if s.shared == nil {
		s.shared = &shared{}
	}
	if s.dial == nil {
		s.dial = dial
	}
	if s.verify == nil {
		s.verify = &tls.Config{}
	}
	if s.hello == 0 {
		s.hello = helloTime
	}
	if s.half == 0 {
		s.half = halfTime
	}
	if s.look == 0 {
		s.look = lookTime
	}
	s.asked = map[uint16]bool{}
	for _, p := range s.Policy.AskedPorts() {
		s.asked[p] = true
	}
	s.hosts = s.grantedHosts()
	for p, n := range map[*chan struct{}]int{&s.asking: maxAsking, &s.looking: maxLooking, &s.conns: room()} {
		if *p == nil {
			*p = make(chan struct{}, n)
		}
	}
}

// room is how many connections may be open, with those to their servers: without a descriptor left one couldn't even be denied.
func room() int {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return maxConns
	}
	return max(1, min(maxConns, (int(min(files.Cur, 4*maxConns))-otherFiles)/2))
}

// Queries is how many questions the session has asked, denied ones included.
func (s *Server) Queries() uint64 { return s.queries.Load() }

// accept takes connections until the listener is closed.
func (s *Server) accept(ctx context.Context, l *net.TCPListener) error {
	for {
		c, err := l.AcceptTCP()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // too many open files, or the client is gone already
			time.Sleep(acceptPause)
			continue
		}
		select {
		case s.conns <- struct{}{}:
			s.done.Go(func() { s.now().serveConn(ctx, c) })
		default:
			s.now().tooMany(c)
		}
	}
}

// tooMany denies a connection at once.
func (s *Server) tooMany(c *net.TCPConn) {
	f := &conn{s: s, client: client{at: unmapped(c.RemoteAddr())}, conn: c}
	if to, by, err := s.Kernel.Original(f.client.at, unmapped(c.LocalAddr())); err == nil {
		f.to, f.client.by = to, by
		f.deny("raw", "", decision{Verdict: slow, note: fmt.Sprintf("there are %d connections already", cap(s.conns))}, "tcp://"+to.String())
	}
	f.reset()
}

const acceptPause = 5 * time.Millisecond

// serveConn decides on a connection.
func (s *Server) serveConn(ctx context.Context, c *net.TCPConn) {
	f := &conn{s: s, client: client{at: unmapped(c.RemoteAddr())}, conn: c}
	f.ctx, f.cancel = context.WithCancel(ctx)
	f.stop = context.AfterFunc(f.ctx, func() { c.Close() })
	f.untilEnd(f.cancel)
	to, by, err := s.Kernel.Original(f.client.at, unmapped(c.LocalAddr()))
	if err != nil {
		f.reset()
		return
	}
	f.client.by = by
	f.to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	f.own = s.Own(f.to.Addr())
	if to.Port() == dnsPort {
		s.serveDNS(ctx, c, f.client)
		f.close()
		return
	}
	f.serve()
}

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTime}
	return d.DialContext(ctx, "tcp", to.String())
}

const dialTime = 10 * time.Second

// unmapped is a socket's address without the IPv6 form of IPv4 ones.
func unmapped(a net.Addr) netip.AddrPort {
	t, ok := a.(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// client is who is answered.
type client struct {
	at netip.AddrPort
	by event.Observed
}

// denial is a denial of what the client wants.
func (c client) denial(protocol string) message.Denial {
	return message.Denial{Client: c.at, By: c.by, Protocol: protocol}
}

// maxTold bounds what a client's own words add to an event.
const maxTold = 2048

// deny reports a denial and returns it as reported. target is a URL, tcp://host:port, or dns://name.
func (s *Server) deny(d message.Denial, r decision, target string) explain.Answer {
	if r.about.Port == 0 {
		r.about, _ = netname.ParseTarget(target)
		r.about.Method = d.Method
	}
	d.Answer = explain.DescribeNet(s.Policy, r.Verdict, &r.about, target)
	d.Answer.Note = r.note
	for _, text := range []*string{&d.Answer.Target, &d.Answer.Note} {
		if len(*text) > maxTold {
			*text = strings.ToValidUTF8((*text)[:maxTold], "") + "…"
		}
	}
	if len(d.Answer.Suggest) > maxTold { // what is cut would grant more
		d.Answer.Suggest = ""
	}
	s.Tell(d)
	return d.Answer
}
