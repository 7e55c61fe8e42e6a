package egress

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/egress/dns"
	"github.com/toolguard/toolguard/internal/policy"
)

const (
	a4    = dnsmessage.TypeA
	a6    = dnsmessage.TypeAAAA
	ok    = dnsmessage.RCodeSuccess
	nxdom = dnsmessage.RCodeNameError
)

func TestResolve(t *testing.T) {
	long := strings.Repeat("x", 60)
	w := newWorld(t, allow("a.com"), allow("*.wild.com"), denied("bad.wild.com"), allow("cdn.net"), denied("evil.net"), allow("to-evil.com"), allow("inside.com"),
		allow("granted.com"), allow("10.9.0.0/16"), allow("loop.com"), allow("localhost"), allow("deep.to.wild.com"), policy.NetRule{Host: "lab.com", Scheme: "http", Port: 8080, Allow: true})
	for name, value := range map[string]string{
		"a.com": "203.0.113.1 203.0.113.2 2001:db8::1", "x.wild.com": "203.0.113.3", "bad.wild.com": "203.0.113.3", "other.com": "203.0.113.9",
		"www.a.com": "203.0.113.1", "cdn.net": "-> a1.edge.org", "a1.edge.org": "-> b2.edge.org", "b2.edge.org": "203.0.113.7",
		"evil.net": "203.0.113.8", "to-evil.com": "-> middle.org", "middle.org": "-> evil.net", "inside.com": "-> metadata.org", "metadata.org": "169.254.169.254 203.0.113.5",
		"granted.com": "10.9.1.1 10.8.1.1 127.0.0.2", "loop.com": "-> loop.com", "far.com": "-> c1.org", "c13.org": "203.0.113.1", "near.com": "-> c2.org", "lab.com": "203.0.113.6",
		"a.b.c.d.e.f.wild.com": "203.0.113.3", "a.b.c.d.e.f.g.wild.com": "203.0.113.3", long + "." + long + ".wild.com": "203.0.113.3",
	} {
		w.zone.set(name, value)
	}
	w.start()
	for _, x := range []struct {
		name     string
		typ      dnsmessage.Type
		want     string
		code     dnsmessage.RCode
		reported string
	}{
		{"a.com", a4, "203.0.113.1 203.0.113.2", ok, ""},
		{"A.CoM", a4, "203.0.113.1 203.0.113.2", ok, ""},
		{"a.com", a6, "2001:db8::1", ok, ""},
		{"a.com", dnsmessage.TypeTXT, "", ok, "dns_denied dns://a.com"},
		{"a.com", dnsmessage.TypeHTTPS, "", ok, ""},
		{"a.com", dnsmessage.TypeSVCB, "", ok, ""},
		{"a.com", dnsmessage.TypeCNAME, "", ok, "dns_denied dns://a.com"},
		{"a.com", dnsmessage.TypeALL, "", ok, "dns_denied dns://a.com"},
		{"lab.com", a4, "203.0.113.6", ok, ""},
		{"x.wild.com", a4, "203.0.113.3", ok, ""},
		{"none.wild.com", a4, "", nxdom, ""},
		{"other.com", a4, "", nxdom, "dns_denied dns://other.com"},
		{"other.com", dnsmessage.TypeTXT, "", nxdom, "dns_denied dns://other.com"},
		{"www.a.com", a4, "", nxdom, "dns_denied dns://www.a.com"},
		{"wild.com", a4, "", nxdom, "dns_denied dns://wild.com"},
		{"bad.wild.com", a4, "", nxdom, "rule_denies net.3 dns://bad.wild.com"},
		{"secret.data.evil.org", a4, "", nxdom, "dns_denied dns://secret.data.evil.org"},
		{"1.113.0.203.in-addr.arpa", dnsmessage.TypePTR, "", nxdom, "dns_denied dns://1.113.0.203.in-addr.arpa"},
		{"127.1", a4, "", nxdom, "dns_denied dns://127.1"},
		{"a b.com", a4, "", nxdom, "dns_denied dns://a b.com"},
		{"cdn.net", a4, "203.0.113.7", ok, ""},
		{"to-evil.com", a4, "", nxdom, "rule_denies net.5 dns://evil.net"},
		{"inside.com", a4, "203.0.113.5", ok, "private_address tcp://169.254.169.254:443"},
		{"granted.com", a4, "10.9.1.1", ok, "private_address tcp://10.8.1.1:443 private_address tcp://127.0.0.2:443"},
		{"loop.com", a4, "", dnsmessage.RCodeServerFailure, ""},
		{"localhost", a4, "127.0.0.1", ok, ""},
		{"localhost", a6, "::1", ok, ""},
		{"a.b.c.d.e.f.wild.com", a4, "203.0.113.3", ok, ""},
		{"a.b.c.d.e.f.g.wild.com", a4, "", nxdom, "limit net.2 dns://a.b.c.d.e.f.g.wild.com"},
		{long + "." + long + ".wild.com", a4, "", nxdom, "limit net.2 dns://" + long + "." + long + ".wild.com"},
	} {
		before := len(w.zone.queried())
		addrs, code := w.resolve(x.name, x.typ)
		var got []string
		for _, a := range addrs {
			got = append(got, a.String())
		}
		if strings.Join(got, " ") != x.want || code != x.code {
			t.Errorf("%s %s: %q %s, want %q %s", x.name, x.typ, got, code, x.want, x.code)
		}
		w.wantReports(fmt.Sprint(x.name, " ", x.typ), x.reported)
		denied := x.code == nxdom && x.name != "none.wild.com" && x.name != "to-evil.com"
		if asked := len(w.zone.queried()) > before; asked && (denied || x.typ != a4 && x.typ != a6 || x.name == "localhost") {
			t.Errorf("%s %s was queried upstream", x.name, x.typ)
		}
	}
	if w.s.Queries() != 30 {
		t.Errorf("%d queries were counted", w.s.Queries())
	}
}

// When the answer arrives, the kernel permits the ports that the name alone decides, and no others.
func TestPermit(t *testing.T) {
	w := newWorld(t, allow("a.com"), policy.NetRule{Host: "*.db.com", Port: 5432, Allow: true}, policy.NetRule{Host: "*.db.com", Protocol: "udp", Port: 99, Allow: true},
		policy.NetRule{Host: "web.com", Scheme: "https", Allow: true}, policy.NetRule{Host: "10.0.0.1", Port: 5432, Allow: true}, policy.NetRule{Host: "evil.com", Port: 6000}, policy.NetRule{Host: "six.com", Port: 6000, Allow: true})
	for n, a := range map[string]string{"a.com": "203.0.113.1 2001:db8::1", "x.db.com": "203.0.113.2 10.0.0.1 10.0.0.2", "web.com": "203.0.113.3", "six.com": "203.0.113.4"} {
		w.zone.set(n, a)
	}
	w.start()
	for _, x := range []struct {
		name string
		typ  dnsmessage.Type
		want []string
	}{
		{"a.com", a4, []string{"tcp 203.0.113.1:22", "tcp 203.0.113.1:9418"}},
		{"a.com", a6, []string{"tcp [2001:db8::1]:22", "tcp [2001:db8::1]:9418"}},
		{"x.db.com", a4, []string{"tcp 10.0.0.1:5432", "tcp 203.0.113.2:5432", "udp 203.0.113.2:99"}},
		{"web.com", a4, nil},
		{"six.com", a4, nil}, // another name is denied on that port, so egress decides
	} {
		w.mu.Lock()
		clear(w.permits)
		w.mu.Unlock()
		before := time.Now()
		if addrs, _ := w.resolve(x.name, x.typ); len(addrs) == 0 {
			t.Errorf("%s has no address", x.name)
		}
		var got []string
		w.mu.Lock()
		for p, until := range w.permits {
			got = append(got, p)
			if life := until.Sub(before); life < 299*time.Second || life > 310*time.Second {
				t.Errorf("%s is permitted for %s", p, life)
			}
		}
		w.mu.Unlock()
		slices.Sort(got)
		if !slices.Equal(got, x.want) {
			t.Errorf("%s: %q, want %q", x.name, got, x.want)
		}
	}
	w.takeDenials()
	w.failPermit(errors.New("the map is full"))
	if addrs, code := w.resolve("x.db.com", a4); len(addrs) > 0 || code != dnsmessage.RCodeServerFailure {
		t.Errorf("an answer without the kernel's permission: %v, %s", addrs, code)
	}
	w.wantDenials("engine_error dns://x.db.com")
	if addrs, _ := w.resolve("web.com", a4); len(addrs) != 1 {
		t.Error("an answer that needs no permission is missing")
	}
}

// A denial has its reason as an extended error, for clients with EDNS.
func TestExtendedError(t *testing.T) {
	w := newWorld(t, allow("a.com"), denied("b.com")).start()
	n := dnsmessage.MustNewName("b.com.")
	var opt dnsmessage.ResourceHeader
	must(t, opt.SetEDNS0(4096, 0, false))
	m := dnsmessage.Message{
		Header: dnsmessage.Header{ID: 77}, Questions: []dnsmessage.Question{{Name: n, Type: a4, Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{Header: opt, Body: &dnsmessage.OPTResource{}}},
	}
	msg, err := m.Pack()
	must(t, err)
	var got dnsmessage.Message
	if err := got.Unpack(w.query(msg)); err != nil || len(got.Additionals) != 1 {
		t.Fatalf("%v: %+v", err, got)
	}
	want := []dnsmessage.Option{{Code: 15, Data: []byte("\x00\x12toolguard: rule_denies (net.2, p.toml:2:1)")}}
	if o := got.Additionals[0].Body.(*dnsmessage.OPTResource).Options; !reflect.DeepEqual(o, want) {
		t.Errorf("%+v", o)
	}
}

// A message that isn't an ordinary query with one question gets an error or no answer.
func TestBadQueries(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	w.start()
	q := dnsmessage.Question{Name: dnsmessage.MustNewName("a.com."), Type: a4, Class: dnsmessage.ClassINET}
	for name, m := range map[string]dnsmessage.Message{
		"two questions": {Questions: []dnsmessage.Question{q, q}},
		"none":          {},
		"an update":     {Header: dnsmessage.Header{OpCode: 5}, Questions: []dnsmessage.Question{q}},
	} {
		m.ID = 77
		msg, err := m.Pack()
		must(t, err)
		if addrs, code := addrsIn(t, w.query(msg)); len(addrs) > 0 || code != dnsmessage.RCodeFormatError {
			t.Errorf("%s: %v %s", name, addrs, code)
		}
		w.wantDenials("host_mismatch dns://")
	}
	chaos := query(t, "a.com", a4)
	chaos[len(chaos)-1] = 3
	if addrs, code := addrsIn(t, w.query(chaos)); len(addrs) > 0 || code != ok {
		t.Errorf("another class: %v %s", addrs, code)
	}
	w.wantDenials("dns_denied dns://a.com")
	c, err := net.Dial("udp4", w.udp.String())
	must(t, err)
	defer c.Close()
	answer := query(t, "other.com", a4)
	answer[2] |= 0x80
	for _, msg := range [][]byte{answer, []byte("x"), {}} { // without an answer
		if _, err := c.Write(msg); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write(query(t, "a.com", a4)); err != nil {
		t.Fatal(err)
	}
	c.SetDeadline(time.Now().Add(testTimeout))
	buf := make([]byte, 512)
	n, err := c.Read(buf)
	must(t, err)
	if addrs, _ := addrsIn(t, buf[:n]); len(addrs) != 1 {
		t.Errorf("the first answer is %x", buf[:n])
	}
	if len(w.zone.queried()) != 1 {
		t.Errorf("upstream was queried for %q", w.zone.queried())
	}
	w.wantDenials("host_mismatch dns://", "host_mismatch dns://", "host_mismatch dns://")
	long := w.dial("203.0.113.1:53")
	long.Write(dns.Frame(make([]byte, maxQuerySize+1))[:2])
	if rest, err := io.ReadAll(long); err != nil || len(rest) > 0 {
		t.Errorf("a query that is too long: %q, %v", rest, err)
	}
	w.wantDenials("host_mismatch dns://")
}

// Long answers are truncated by UDP and complete by TCP, downstream and upstream.
func TestLongAnswers(t *testing.T) {
	w := newWorld(t, allow("many.com"))
	var addrs []string
	for i := range 100 {
		addrs = append(addrs, fmt.Sprintf("203.0.113.%d", i+1))
	}
	w.zone.set("many.com", strings.Join(addrs, " "))
	w.zone.setPrelude(func(m dnsmessage.Message, tcp bool) [][]byte {
		if tcp {
			return nil
		}
		m.Response, m.Truncated, m.Additionals = true, true, nil
		b, _ := m.Pack()
		return [][]byte{b, nil}
	})
	w.start()
	msg := w.query(query(t, "many.com", a4))
	var m dnsmessage.Message
	if err := m.Unpack(msg); err != nil || !m.Truncated || len(m.Answers) > 0 || len(msg) > 512 {
		t.Errorf("by UDP: %v, %d bytes, %+v", err, len(msg), m.Header)
	}
	c := w.dial("198.51.100.1:53")
	for range 2 {
		c.Write(dns.Frame(query(t, "many.com", a4)))
		in, err := dns.ReadFrame(c, 1<<16)
		must(t, err)
		if got, _ := addrsIn(t, in); len(got) != dns.MaxAddrs {
			t.Errorf("by TCP: %d addresses", len(got))
		}
	}
	c.Write(dns.Frame(make([]byte, maxQuerySize+1))[:2])
	c.SetReadDeadline(time.Now().Add(dnsIdleTimeout * 9 / 10))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection stays open after a query that is too long: %v", err)
	}
}

// An answer counts only with the query's ID, type, and name in the same case.
func TestForgedAnswers(t *testing.T) {
	w := newWorld(t, allow("a-rather-long-name-for-capitals.com"))
	w.zone.set("a-rather-long-name-for-capitals.com", "203.0.113.1")
	forged := func(m dnsmessage.Message, change func(*dnsmessage.Message)) []byte {
		q := m.Questions[0]
		m.Response, m.Additionals, m.Questions = true, nil, []dnsmessage.Question{q}
		m.Answers = []dnsmessage.Resource{{Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 60}, Body: &dnsmessage.AResource{A: [4]byte{203, 0, 113, 66}}}}
		change(&m)
		b, err := m.Pack()
		if err != nil {
			t.Error(err)
		}
		return b
	}
	w.zone.setPrelude(func(m dnsmessage.Message, _ bool) [][]byte {
		return [][]byte{
			forged(m, func(m *dnsmessage.Message) { m.ID++ }),
			forged(m, func(m *dnsmessage.Message) { m.Response = false }),
			forged(m, func(m *dnsmessage.Message) { m.Questions[0].Type = a6 }),
			forged(m, func(m *dnsmessage.Message) { m.Questions = append(m.Questions, m.Questions[0]) }),
			[]byte("nonsense"),
		}
	})
	w.start()
	got, _ := w.resolve("a-rather-long-name-for-capitals.com", a4)
	if want := []netip.Addr{netip.MustParseAddr("203.0.113.1")}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	w.zone.mu.Lock()
	if q := w.zone.queries[0]; q == strings.ToLower(q) {
		t.Error("the query's name isn't in random case")
	}
	w.zone.mu.Unlock()
	// A forged answer with the right ID and the wrong case only causes a query by TCP.
	w.zone.setPrelude(func(m dnsmessage.Message, tcp bool) [][]byte {
		if tcp {
			return nil
		}
		return [][]byte{forged(m, func(m *dnsmessage.Message) {
			m.Questions[0].Name = dnsmessage.MustNewName(strings.ToUpper(m.Questions[0].Name.String()))
		}), nil}
	})
	if got, _ := w.resolve("a-rather-long-name-for-capitals.com", a4); len(got) != 1 || got[0] != netip.MustParseAddr("203.0.113.1") {
		t.Errorf("with another case: %v", got)
	}
	// Control: a perfectly forged answer is accepted.
	w.zone.setPrelude(func(m dnsmessage.Message, _ bool) [][]byte {
		return [][]byte{forged(m, func(*dnsmessage.Message) {}), nil}
	})
	if got, _ := w.resolve("a-rather-long-name-for-capitals.com", a4); len(got) != 1 || got[0] != netip.MustParseAddr("203.0.113.66") {
		t.Errorf("control: %v", got)
	}
	w.zone.setPrelude(func(m dnsmessage.Message, _ bool) [][]byte {
		return [][]byte{forged(m, func(m *dnsmessage.Message) { m.Answers[0].Header.Class = dnsmessage.ClassCHAOS }), nil}
	})
	if got, _ := w.resolve("a-rather-long-name-for-capitals.com", a4); len(got) != 0 {
		t.Errorf("of another class: %v", got)
	}
}

// A server that doesn't repeat the case is queried by TCP, which ignores it. After a time-out the next server is queried.
func TestUpstreamServers(t *testing.T) {
	w := newWorld(t, allow("capitals-get-lost.com"))
	w.zone.set("capitals-get-lost.com", "203.0.113.1")
	w.zone.setPrelude(func(m dnsmessage.Message, _ bool) [][]byte {
		m.Questions[0].Name = dnsmessage.MustNewName(strings.ToLower(m.Questions[0].Name.String()))
		m.Additionals = nil
		return [][]byte{w.zone.answer(m), nil}
	})
	quiet, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	defer quiet.Close()
	w.s.Upstream = []netip.AddrPort{quiet.LocalAddr().(*net.UDPAddr).AddrPort(), w.zone.addr}
	w.start()
	if got, _ := w.resolve("capitals-get-lost.com", a4); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// While upstream is slow, queries that don't need it are answered, and those that do fail at once.
func TestBusy(t *testing.T) {
	w := newWorld(t, allow("*.slow.com"))
	w.zone.set("a.slow.com", "203.0.113.1")
	w.s.lookupSlots = make(chan struct{}, 1)
	w.start()
	if addrs, _ := w.resolve("a.slow.com", a4); len(addrs) != 1 {
		t.Error("control")
	}
	w.s.lookupSlots <- struct{}{} // the only slot is in use for ever
	if _, code := w.resolve("a.slow.com", a4); code != dnsmessage.RCodeServerFailure {
		t.Error(code)
	}
	w.wantDenials("limit dns://a.slow.com")
	if _, code := w.resolve("other.com", a4); code != nxdom {
		t.Error(code)
	}
}

func TestNameCache(t *testing.T) {
	var m nameCache
	addr := netip.MustParseAddr("203.0.113.1")
	m.add("gone.com", addr, time.Now().Add(-time.Second))
	m.add("a.com", addr, time.Now().Add(time.Hour))
	m.add("a.com", addr, time.Now().Add(time.Hour))
	m.add("b.com", addr, time.Now().Add(time.Minute))
	if got := m.names(addr); !slices.Equal(got, []string{"a.com", "b.com"}) {
		t.Errorf("%q", got)
	}
	for i := range 2 * namesPerAddr {
		m.add(fmt.Sprint(i), addr, time.Now().Add(time.Duration(i)*time.Second+2*time.Minute))
	}
	if got := m.names(addr); len(got) != namesPerAddr || !slices.Contains(got, "a.com") || slices.Contains(got, "b.com") {
		t.Errorf("%q", got)
	}
	for i := range 3 * maxAddrs {
		m.add("x.com", netip.AddrFrom4([4]byte{1, byte(i >> 16), byte(i >> 8), byte(i)}), time.Now().Add(time.Hour))
	}
	if len(m.addrs) > maxAddrs {
		t.Errorf("%d addresses are cached", len(m.addrs))
	}
	last := netip.AddrFrom4([4]byte{1, byte((3*maxAddrs - 1) >> 16), byte((3*maxAddrs - 1) >> 8 & 0xff), byte((3*maxAddrs - 1) & 0xff)})
	if len(m.names(last)) != 1 {
		t.Error("a new binding is evicted")
	}
}

// A datagram from outside the session is neither answered nor reported.
func TestForeignDatagrams(t *testing.T) {
	w := newWorld(t, allow("a.com")).start()
	c, err := net.Dial("udp4", w.udp.String())
	must(t, err)
	defer c.Close()
	w.mu.Lock()
	w.foreign = c.LocalAddr().(*net.UDPAddr).AddrPort()
	w.mu.Unlock()
	if _, err := c.Write(query(t, "evil.com", a4)); err != nil {
		t.Fatal(err)
	}
	if got, code := w.resolve("a.com", a4); len(got) != 1 || code != dnsmessage.RCodeSuccess {
		t.Errorf("of the session: %v %s", got, code)
	}
	w.wantDenials()
	if n := w.s.Queries(); n != 1 {
		t.Errorf("%d queries count, not one", n)
	}
}
