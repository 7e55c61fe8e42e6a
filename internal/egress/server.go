package egress

import (
	"cmp"
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

// Kernel is the BPF part of the network rules. It redirects the session's connections to egress and restricts all others to what Permit
// allows.
type Kernel interface {
	// Original returns the original destination of a redirected connection, and its process. It fails for connections from outside the
	// session.
	Original(client, listener netip.AddrPort) (netip.AddrPort, event.Observed, error)
	// Sender returns the process that sent a redirected datagram. It fails for datagrams from outside the session.
	Sender(client, listener netip.AddrPort) (event.Observed, error)
	// Permit allows the session to connect directly to an address and port until a time, by the policy of a generation. With a time in
	// the past it allows only the connections that are open.
	Permit(generation uint32, protocol string, to netip.AddrPort, until time.Time) error
}

// Server decides for one session. Its exported fields are set before Serve.
type Server struct {
	Policy     *policy.Compiled
	Generation uint32                  // of Policy
	Hosts      map[string][]netip.Addr // the machine's hosts file
	Upstream   []netip.AddrPort        // name servers, in order of preference
	Kernel     Kernel
	Denied     func(message.Denial)  // called with every denial; must not block
	CA         *Authority            // for tls_intercept; required where Policy.Intercepts
	Changes    <-chan Change         // later policies; may be nil
	Proxy      bool                  // clients name their servers, as to an HTTP proxy: nothing redirects them here
	IsOwn      func(netip.Addr) bool // reports whether an address is the machine's own (package ownaddr)

	dial                func(context.Context, netip.AddrPort) (net.Conn, error)
	verify              *tls.Config   // verifies servers where TLS is intercepted
	helloTimeout        time.Duration // for the rest of a hello or a head
	halfCloseTimeout    time.Duration // of silence on a connection that one side has closed
	clientCheckInterval time.Duration // how often a waiting client is checked
	askedPorts          map[uint16]bool
	hosts               hosts
	*shared
}

// Change is another policy for the session. Done gets the result.
type Change struct {
	Policy     *policy.Compiled
	Generation uint32
	Hosts      map[string][]netip.Addr
	Done       func(error)
}

// shared is the state that the servers of a session have in common. There is one server per policy.
type shared struct {
	names       nameCache
	querySlots  chan struct{} // one per query being answered
	lookupSlots chan struct{} // one per query to a name server
	connSlots   chan struct{} // one per connection
	queries     atomic.Uint64
	budget      budget
	running     sync.WaitGroup

	policyMu  sync.RWMutex
	latest    *Server
	transfers sync.Map // of *transfer
}

// Limits of one session.
const (
	maxQueries    = 1024
	maxLookups    = 256
	maxConns      = 16384
	reservedFiles = 512 // descriptors for name servers, pipes and the rest
)

// Serve answers DNS on udp, and on tcp what the kernel redirects, until ctx is done.
func (s *Server) Serve(ctx context.Context, tcp []*net.TCPListener, udp []*net.UDPConn) error {
	if s.Policy.Intercepts() && s.CA == nil {
		return errors.New("the policy intercepts TLS, which needs a certificate authority")
	}
	s.init()
	s.latest = s
	s.permitHosts()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s.running.Go(func() { s.applyChanges(ctx) })
	for _, l := range tcp {
		stop := context.AfterFunc(ctx, func() { l.Close() })
		defer stop()
		s.running.Go(func() { cancel(s.accept(ctx, l)) })
	}
	for _, c := range udp {
		stop := context.AfterFunc(ctx, func() { c.Close() })
		defer stop()
		s.running.Go(func() { cancel(s.serveUDP(ctx, c)) })
	}
	<-ctx.Done()
	s.running.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// applyChanges applies policies as they arrive.
func (s *Server) applyChanges(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-s.Changes:
			c.Done(s.reload(&c))
		}
	}
}

// reload applies another policy to new queries, connections and requests. Open transfers that it denies end.
func (s *Server) reload(c *Change) error {
	if c.Policy.Intercepts() && s.CA == nil {
		return errors.New("the policy intercepts TLS, but the session started without a certificate authority")
	}
	next := *s
	next.Policy, next.Generation, next.Hosts = c.Policy, c.Generation, c.Hosts
	next.init()
	s.policyMu.Lock()
	s.latest = &next
	s.policyMu.Unlock()
	if err := next.permitResolved(); err != nil {
		return err
	}
	next.permitHosts()
	s.transfers.Range(func(p, _ any) bool {
		next.recheck(p.(*transfer))
		return true
	})
	return nil
}

// current returns the server of the policy in force.
func (s *Server) current() *Server {
	s.policyMu.RLock()
	defer s.policyMu.RUnlock()
	return s.latest
}

func (s *Server) init() {
	if s.shared == nil { // a test that has set it may read it while Serve begins
		s.shared = &shared{}
	}
	if s.dial == nil {
		s.dial = dial
	}
	s.verify = cmp.Or(s.verify, &tls.Config{})
	s.helloTimeout = cmp.Or(s.helloTimeout, defaultHelloTimeout)
	s.halfCloseTimeout = cmp.Or(s.halfCloseTimeout, defaultHalfCloseTimeout)
	s.clientCheckInterval = cmp.Or(s.clientCheckInterval, defaultClientCheckInterval)
	s.askedPorts = map[uint16]bool{}
	for _, p := range s.Policy.AskedPorts() {
		s.askedPorts[p] = true
	}
	s.hosts = s.grantedHosts()
	for p, n := range map[*chan struct{}]int{&s.querySlots: maxQueries, &s.lookupSlots: maxLookups, &s.connSlots: connLimit()} {
		if *p == nil {
			*p = make(chan struct{}, n)
		}
	}
}

// connLimit returns how many connections may be open, each with one to its server. Without a free descriptor egress couldn't even deny a
// connection.
func connLimit() int {
	var files syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files) != nil {
		return maxConns
	}
	return max(1, min(maxConns, (int(min(files.Cur, 4*maxConns))-reservedFiles)/2))
}

// Queries returns the number of DNS queries of the session, including denied ones.
func (s *Server) Queries() uint64 { return s.queries.Load() }

// accept serves connections until the listener is closed.
func (s *Server) accept(ctx context.Context, l *net.TCPListener) error {
	for {
		c, err := l.AcceptTCP()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // too many open files, or the client has gone
			time.Sleep(acceptPause)
			continue
		}
		select {
		case s.connSlots <- struct{}{}:
			s.running.Go(func() { s.current().serveConn(ctx, c) })
		default:
			s.current().rejectConn(c)
		}
	}
}

// rejectConn denies a connection above the limit.
func (s *Server) rejectConn(tcp *net.TCPConn) {
	c := &conn{s: s, client: client{addr: addrPortOf(tcp.RemoteAddr())}, conn: tcp}
	if to, by, err := s.Kernel.Original(c.client.addr, addrPortOf(tcp.LocalAddr())); err == nil {
		c.to, c.client.process = to, by
		c.deny("raw", "", overLimit(fmt.Sprintf("there are %d connections already", cap(s.connSlots))), "tcp://"+to.String())
	}
	c.reset()
}

const acceptPause = 5 * time.Millisecond

// serveConn decides on a connection.
func (s *Server) serveConn(ctx context.Context, tcp *net.TCPConn) {
	c := &conn{s: s, client: client{addr: addrPortOf(tcp.RemoteAddr())}, conn: tcp}
	c.ctx, c.cancel = context.WithCancel(ctx)
	c.stop = context.AfterFunc(c.ctx, func() { tcp.Close() })
	c.onClose(c.cancel)
	if s.Proxy {
		c.serveProxy()
		return
	}
	to, by, err := s.Kernel.Original(c.client.addr, addrPortOf(tcp.LocalAddr()))
	if err != nil {
		c.reset()
		return
	}
	c.client.process = by
	c.to = netip.AddrPortFrom(to.Addr().Unmap(), to.Port())
	c.isOwn = s.IsOwn(c.to.Addr())
	if to.Port() == dnsPort {
		s.serveDNS(ctx, tcp, c.client)
		c.close()
		return
	}
	c.serve()
}

func dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	return d.DialContext(ctx, "tcp", to.String())
}

const dialTimeout = 10 * time.Second

// addrPortOf returns a socket's address, with IPv4-mapped IPv6 addresses as IPv4.
func addrPortOf(a net.Addr) netip.AddrPort {
	t, ok := a.(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}

// client is the session's side of a connection or query.
type client struct {
	addr    netip.AddrPort
	process event.Observed
}

// denial returns a denial of the client, to be completed.
func (c client) denial(protocol string) message.Denial {
	return message.Denial{Client: c.addr, Process: c.process, Protocol: protocol}
}

// maxText limits the client's text in an event.
const maxText = 2048

// deny reports a denial and returns the reported answer. target is a URL, tcp://host:port, or dns://name.
func (s *Server) deny(d message.Denial, r decision, target string) explain.Answer {
	if r.target.Port == 0 {
		r.target, _ = netname.ParseTarget(target)
		r.target.Method = d.Method
	}
	d.Answer = explain.DescribeNet(s.Policy, r.Verdict, &r.target, target)
	d.Answer.Note = r.note
	for _, text := range []*string{&d.Answer.Target, &d.Answer.Note} {
		if len(*text) > maxText {
			*text = strings.ToValidUTF8((*text)[:maxText], "") + "…"
		}
	}
	if len(d.Answer.Suggest) > maxText { // a truncated rule would grant more
		d.Answer.Suggest = ""
	}
	s.Denied(d)
	return d.Answer
}
