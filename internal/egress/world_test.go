package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/egress/dns"
	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/nettest"
	"github.com/toolguard/toolguard/internal/policy"
)

var (
	must       = childtest.Must
	eventually = childtest.Eventually
)

// testTimeout is far above the time that tests need.
const testTimeout = time.Minute

// world is a server in front of a simulated internet on loopback: names in a zone, public addresses that lead to local listeners, and
// a kernel that redirects the connections of dial.
type world struct {
	t      testing.TB
	s      *Server
	tcp    netip.AddrPort // of the server
	udp    netip.AddrPort
	zone   *zone
	routes map[netip.AddrPort]string

	mu             sync.Mutex
	destinations   map[netip.AddrPort]netip.AddrPort // of redirected clients
	anyDestination netip.AddrPort                    // of all other clients, if valid
	denials        []message.Denial
	process        event.Observed       // of all denials
	permits        map[string]time.Time // "tcp 1.2.3.4:22"
	permitErr      error                // the result of Permit
	foreign        netip.AddrPort       // a client outside the session
	dialed         []netip.AddrPort
}

// allow and deny are rules about a host alone.
func allow(host string) policy.NetRule  { return policy.NetRule{Host: host, Allow: true} }
func denied(host string) policy.NetRule { return policy.NetRule{Host: host} }

// newWorld returns a world with rules, in whose zone a.com is 203.0.113.1.
func newWorld(t testing.TB, rules ...policy.NetRule) *world {
	return newWorldOf(t, policy.SourceLayer{Net: rules})
}

func newWorldOf(t testing.TB, l policy.SourceLayer) *world {
	t.Helper()
	l.Authority = policy.Session
	for i := range l.Net {
		l.Net[i].Position = policy.Position{File: "p.toml", Line: i + 1, Col: 1}
	}
	c := nettest.Policy(t, l)
	w := &world{t: t, routes: map[netip.AddrPort]string{}, destinations: map[netip.AddrPort]netip.AddrPort{}, permits: map[string]time.Time{}, zone: newZone(t), process: testProcess}
	w.zone.set("a.com", "203.0.113.1")
	w.s = &Server{Policy: c, Upstream: []netip.AddrPort{w.zone.addr}, Kernel: w, Denied: w.addDenial, IsOwn: func(netip.Addr) bool { return false }, dial: w.route, shared: &shared{}}
	return w
}

// start serves until the test ends, and resolves names.
func (w *world) start(resolved ...string) *world {
	w.t.Helper()
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(w.t, err)
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(w.t, err)
	w.tcp, w.udp = l.Addr().(*net.TCPAddr).AddrPort(), c.LocalAddr().(*net.UDPAddr).AddrPort()
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan error)
	go func() { over <- w.s.Serve(ctx, []*net.TCPListener{l}, []*net.UDPConn{c}) }()
	w.t.Cleanup(func() {
		cancel()
		select {
		case err := <-over:
			if err != nil {
				w.t.Errorf("Serve: %v", err)
			}
		case <-time.After(testTimeout):
			w.t.Error("Serve doesn't end")
		}
	})
	for _, name := range resolved {
		w.resolve(name, a4)
	}
	return w
}

func (w *world) addDenial(d message.Denial) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denials = append(w.denials, d)
}

// Original returns the destination that dial noted.
func (w *world) Original(client, listener netip.AddrPort) (netip.AddrPort, event.Observed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if to, ok := w.destinations[client]; ok && listener == w.tcp {
		return to, testProcess, nil
	}
	if w.anyDestination.IsValid() {
		return w.anyDestination, testProcess, nil
	}
	return netip.AddrPort{}, event.Observed{}, errors.New("not redirected")
}

// testProcess is the process of all connections and datagrams.
var testProcess = event.Observed{PID: 42, UID: 1000, Comm: "asker", SeenAt: time.Hour}

// Sender returns testProcess for the session's datagrams.
func (w *world) Sender(client, listener netip.AddrPort) (event.Observed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if client == w.foreign || listener != w.udp {
		return event.Observed{}, errors.New("not redirected")
	}
	return testProcess, nil
}

// Permit notes the permission.
func (w *world) Permit(generation uint32, protocol string, to netip.AddrPort, until time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.permitErr == nil {
		w.permits[protocol+" "+to.String()] = until
	}
	return w.permitErr
}

// route dials the local listener of a public address.
func (w *world) route(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	w.mu.Lock()
	w.dialed = append(w.dialed, to)
	local, ok := w.routes[to]
	w.mu.Unlock()
	if !ok {
		return nil, errors.New("no route to " + to.String())
	}
	return new(net.Dialer).DialContext(ctx, "tcp", local)
}

// serve makes an address lead to a handler.
func (w *world) serve(to string, h http.Handler) {
	srv := &http.Server{Handler: h}
	l := w.listen(to)
	go srv.Serve(l)
	w.t.Cleanup(func() { srv.Close() })
}

// listen makes an address lead to a listener.
func (w *world) listen(to string) net.Listener {
	w.t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	must(w.t, err)
	w.t.Cleanup(func() { l.Close() })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.routes[netip.MustParseAddrPort(to)] = l.Addr().String()
	return l
}

// dial opens a redirected connection of the session.
func (w *world) dial(to string) *net.TCPConn {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.connect()
	w.destinations[addrPortOf(c.LocalAddr())] = netip.MustParseAddrPort(to)
	return c
}

// connect opens a connection to the server.
func (w *world) connect() *net.TCPConn {
	w.t.Helper()
	c, err := net.Dial("tcp4", w.tcp.String())
	must(w.t, err)
	w.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(testTimeout))
	return c.(*net.TCPConn)
}

// reported returns the denials so far, as "reason rule target".
func (w *world) reported() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l []string
	for _, d := range w.denials {
		s := string(d.Answer.Reason)
		if d.Answer.Rule != nil {
			s += " " + d.Answer.Rule.ID
		}
		if d.Process != w.process {
			s += fmt.Sprintf(" of %+v", d.Process)
		}
		l = append(l, s+" "+d.Answer.Target)
	}
	return l
}

// hasNote reports whether a denial's note contains a text.
func (w *world) hasNote(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.denials, func(d message.Denial) bool { return strings.Contains(d.Answer.Note, what) })
}

// wantDenials waits until exactly these denials are reported, and clears them.
func (w *world) wantDenials(want ...string) {
	w.t.Helper()
	w.wantDenialsOf("until now", want...)
}

// wantDenialsOf is wantDenials for a step of a test.
func (w *world) wantDenialsOf(step string, want ...string) {
	w.t.Helper()
	eventually(func() bool { return len(w.reported()) >= len(want) })
	if got := w.reported(); !slices.Equal(got, want) {
		w.t.Errorf("%s: reported %q, want %q", step, got, want)
	}
	w.takeDenials()
}

// wantReports fails unless exactly these denials are reported already, and clears them.
func (w *world) wantReports(step, want string) {
	w.t.Helper()
	if got := strings.Join(w.reported(), " "); got != want {
		w.t.Errorf("%s: reported %q, want %q", step, got, want)
	}
	w.takeDenials()
}

// takeDenials returns the denials since the last call.
func (w *world) takeDenials() []message.Denial {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.denials
	w.denials = nil
	return l
}

// isIdle reports whether all connections have ended.
func (w *world) isIdle() bool { return len(w.s.connSlots) == 0 }

// clearNames clears the names that the session has resolved.
func (w *world) clearNames() {
	w.s.names.mu.Lock()
	defer w.s.names.mu.Unlock()
	clear(w.s.names.addrs)
}

// failPermit sets the result of Permit.
func (w *world) failPermit(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.permitErr = err
}

// dials returns the number of attempted connections to servers.
func (w *world) dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.dialed)
}

// client is an ordinary program: it resolves and connects.
func (w *world) client() *http.Client {
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, port, _ := net.SplitHostPort(addr)
		addrs, code := w.resolve(host, dnsmessage.TypeA)
		if len(addrs) == 0 {
			return nil, errors.New(code.String())
		}
		return w.dial(net.JoinHostPort(addrs[0].String(), port)), nil
	}
	tr := &http.Transport{DialContext: dial, DisableCompression: true}
	w.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: testTimeout}
}

// query sends a message by UDP and returns the answer.
func (w *world) query(msg []byte) []byte {
	w.t.Helper()
	c, err := net.Dial("udp4", w.udp.String())
	must(w.t, err)
	defer c.Close()
	c.SetDeadline(time.Now().Add(testTimeout))
	buf := make([]byte, 4096)
	if _, err := c.Write(msg); err != nil {
		w.t.Fatal(err)
	}
	n, err := c.Read(buf)
	must(w.t, err)
	return buf[:n]
}

func (w *world) resolve(name string, typ dnsmessage.Type) ([]netip.Addr, dnsmessage.RCode) {
	w.t.Helper()
	return addrsIn(w.t, w.query(query(w.t, name, typ)))
}

func query(t testing.TB, name string, typ dnsmessage.Type) []byte {
	t.Helper()
	n, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	must(t, err)
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 77, RecursionDesired: true}, Questions: []dnsmessage.Question{{Name: n, Type: typ, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	must(t, err)
	return b
}

func addrsIn(t testing.TB, msg []byte) (addrs []netip.Addr, code dnsmessage.RCode) {
	t.Helper()
	var m dnsmessage.Message
	must(t, m.Unpack(msg))
	if m.ID != 77 || !m.Response {
		t.Errorf("the answer's header is %+v", m.Header)
	}
	for _, r := range m.Answers {
		switch b := r.Body.(type) {
		case *dnsmessage.AResource:
			addrs = append(addrs, netip.AddrFrom4(b.A))
		case *dnsmessage.AAAAResource:
			addrs = append(addrs, netip.AddrFrom16(b.AAAA))
		default:
			t.Errorf("the answer has %T", b)
		}
	}
	return addrs, m.RCode
}

// zone is a name server for all names. A name's value is a list of addresses, or "-> name" for an alias.
type zone struct {
	addr netip.AddrPort
	ttl  uint32

	mu      sync.Mutex
	names   map[string]string
	queries []string                                      // in order
	prelude func(q dnsmessage.Message, tcp bool) [][]byte // sent before the answer; a nil element: no answer follows
}

func newZone(t testing.TB) *zone {
	t.Helper()
	z := &zone{ttl: 300, names: map[string]string{}}
	var l net.Listener
	var c net.PacketConn
	for range 20 { // for a port that is free for both
		var err error
		if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			t.Fatal(err)
		}
		if c, err = net.ListenPacket("udp4", l.Addr().String()); err == nil {
			break
		}
		l.Close()
	}
	if c == nil {
		t.Fatal("no port for UDP and TCP")
	}
	z.addr = l.Addr().(*net.TCPAddr).AddrPort()
	t.Cleanup(func() { l.Close(); c.Close() })
	go z.serveUDP(c)
	go z.serveTCP(l)
	return z
}

// set sets the value of a name.
func (z *zone) set(name, value string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.names[name] = value
}

// setPrelude makes the server send messages before its answers.
func (z *zone) setPrelude(f func(m dnsmessage.Message, tcp bool) [][]byte) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.prelude = f
}

func (z *zone) serveUDP(c net.PacketConn) {
	buf := make([]byte, 4096)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		for _, out := range z.replies(buf[:n], false) {
			c.WriteTo(out, from)
		}
	}
}

func (z *zone) serveTCP(l net.Listener) {
	nettest.Accept(l, func(c net.Conn) {
		var head [2]byte
		io.ReadFull(c, head[:])
		msg := make([]byte, binary.BigEndian.Uint16(head[:]))
		io.ReadFull(c, msg)
		for _, out := range z.replies(msg, true) {
			c.Write(dns.Frame(out))
		}
	})
}

func (z *zone) replies(msg []byte, tcp bool) (out [][]byte) {
	var m dnsmessage.Message
	if m.Unpack(msg) != nil || len(m.Questions) != 1 {
		return nil
	}
	z.mu.Lock()
	defer z.mu.Unlock()
	q := m.Questions[0]
	z.queries = append(z.queries, q.Name.String())
	if z.prelude != nil {
		for _, b := range z.prelude(m, tcp) {
			if b == nil {
				return out
			}
			out = append(out, b)
		}
	}
	return append(out, z.answer(m))
}

func (z *zone) answer(m dnsmessage.Message) []byte {
	q := m.Questions[0]
	r := dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RCode: dnsmessage.RCodeNameError}, Questions: m.Questions}
	owner := q.Name
	for {
		value, ok := z.names[dns.Lower(owner)]
		if !ok {
			break
		}
		r.RCode = dnsmessage.RCodeSuccess
		h := dnsmessage.ResourceHeader{Name: owner, Class: dnsmessage.ClassINET, TTL: z.ttl}
		alias, isAlias := strings.CutPrefix(value, "-> ")
		if !isAlias {
			for _, f := range strings.Fields(value) {
				a := netip.MustParseAddr(f)
				switch {
				case a.Is4() && q.Type == dnsmessage.TypeA:
					r.Answers = append(r.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AResource{A: a.As4()}})
				case a.Is6() && q.Type == dnsmessage.TypeAAAA:
					r.Answers = append(r.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
				}
			}
			break
		}
		owner = dnsmessage.MustNewName(alias + ".")
		r.Answers = append(r.Answers, dnsmessage.Resource{Header: h, Body: &dnsmessage.CNAMEResource{CNAME: owner}})
		if len(r.Answers) > 20 {
			break
		}
	}
	b, _ := r.Pack()
	return b
}

// queried returns the names of the queries so far, in lower case.
func (z *zone) queried() (l []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for _, q := range z.queries {
		l = append(l, strings.ToLower(q))
	}
	return l
}
