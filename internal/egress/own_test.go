package egress

import (
	"net/netip"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

// A name that resolves to the machine's own address needs a rule for it, as for a private one: for the answer, for the kernel's permission,
// and for a connection.
func TestOwnAddresses(t *testing.T) {
	w := newWorld(t, allow("a.com"), allow("granted.com"), policy.NetRule{Host: "203.0.113.9", Scheme: "http", Allow: true})
	w.s.IsOwn = func(a netip.Addr) bool { return a.As4()[3] >= 8 }
	w.zone.set("a.com", "203.0.113.8 203.0.113.1")
	w.zone.set("granted.com", "203.0.113.9")
	for _, to := range []string{"203.0.113.1:80", "203.0.113.8:80", "203.0.113.9:80"} {
		w.serve(to, &cdn{})
	}
	w.start()
	if addrs, _ := w.resolve("a.com", a4); len(addrs) != 1 || addrs[0].String() != "203.0.113.1" {
		t.Errorf("a.com is %s", addrs)
	}
	w.wantDenials("private_address tcp://203.0.113.8:443")
	if addrs, _ := w.resolve("granted.com", a4); len(addrs) != 1 {
		t.Errorf("granted.com is %s", addrs)
	}
	w.mu.Lock()
	if _, ok := w.permits["tcp 203.0.113.1:22"]; !ok || w.permits["tcp 203.0.113.8:22"] != w.permits["none"] {
		t.Errorf("permitted are %v", w.permits)
	}
	w.mu.Unlock()
	for _, x := range []struct {
		to, host string
		want     int
	}{{"203.0.113.1", "a.com", 200}, {"203.0.113.8", "a.com", 403}, {"203.0.113.9", "granted.com", 200}} {
		w.wantStatus(x.host+" at "+x.to, x.to+":80", getRequest(x.host), x.want)
	}
}

// A query from a foreign source address is not answered: the answer would carry the query to another host.
func TestForeignSource(t *testing.T) {
	w := newWorld(t, allow("a.com"))
	w.s.IsOwn = func(a netip.Addr) bool { return a == netip.MustParseAddr("203.0.113.8") }
	w.start().resolve("a.com", a4) // the server is ready
	for addr, answered := range map[string]bool{"127.0.0.2": true, "::1": true, "203.0.113.8": true, "2a04:4e42::666": false} {
		from := client{netip.AddrPortFrom(netip.MustParseAddr(addr), 999), testProcess}
		out := w.s.answerDatagram(t.Context(), query(t, "evil.com", a4), from)
		if (out != nil) != answered {
			t.Errorf("%s is answered with %d bytes", addr, len(out))
		}
		want := "dns_denied dns://evil.com"
		if !answered {
			want = "host_mismatch dns://" + addr
		}
		w.wantDenials(want)
	}
}
