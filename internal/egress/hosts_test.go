package egress

import (
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/toolguard/toolguard/internal/policy"
)

// The administrator chooses the addresses in the hosts file: for a granted name they count, also private ones, without a query.
func TestHosts(t *testing.T) {
	rules := []policy.NetRule{
		allow("intranet.test"), {Host: "db.test", Port: 5432, Allow: true}, allow("*.corp.test"), allow("barred.test"), denied("10.0.0.9"), allow("inside.test"),
	}
	w := newWorld(t, rules...)
	w.zone.set("intranet.test", "1.2.3.4")
	w.zone.set("inside.test", "10.0.0.6")
	w.s.Hosts = map[string][]netip.Addr{}
	for name, addr := range map[string]string{"intranet.test": "10.0.0.5", "db.test": "127.0.0.1", "a.corp.test": "10.0.0.7", "barred.test": "10.0.0.9", "other.test": "10.0.0.8"} {
		w.s.Hosts[name] = []netip.Addr{netip.MustParseAddr(addr)}
	}
	for _, to := range []string{"10.0.0.5:80", "10.0.0.7:80", "10.0.0.8:80", "10.0.0.9:80", "10.0.0.6:80"} {
		w.serve(to, &cdn{})
	}
	w.start()
	for _, x := range []struct {
		to, host string
		status   int
		reported []string
	}{
		{"10.0.0.5:80", "intranet.test", 200, nil},
		{"10.0.0.7:80", "a.corp.test", 200, nil},
		{"10.0.0.5:80", "a.corp.test", 403, []string{"host_mismatch http://a.corp.test:80/"}},
		{"10.0.0.8:80", "other.test", 403, []string{"host_not_listed http://other.test:80/"}},
		{"10.0.0.9:80", "barred.test", 403, []string{"rule_denies net.5 tcp://10.0.0.9:443", "host_mismatch http://barred.test:80/"}},
		{"10.0.0.6:80", "inside.test", 403, []string{"private_address tcp://10.0.0.6:443", "host_mismatch http://inside.test:80/"}},
	} {
		w.wantStatus(x.host+" at "+x.to, x.to, getRequest(x.host), x.status)
		w.wantDenials(x.reported...)
	}
	if addrs, code := w.resolve("intranet.test", dnsmessage.TypeA); code != dnsmessage.RCodeSuccess || !slices.Equal(addrs, w.s.Hosts["intranet.test"]) {
		t.Errorf("intranet.test: %v, %s", addrs, code)
	}
	if addrs, code := w.resolve("intranet.test", dnsmessage.TypeAAAA); code != dnsmessage.RCodeSuccess || len(addrs) > 0 {
		t.Errorf("intranet.test by IPv6: %v, %s", addrs, code)
	}
	if got := w.zone.queried(); slices.Contains(got, "intranet.test.") {
		t.Errorf("queried upstream: %q", got)
	}
	w.mu.Lock()
	if w.permits["tcp 127.0.0.1:5432"].IsZero() || !w.permits["tcp 10.0.0.8:22"].IsZero() {
		t.Errorf("permitted from the start: %v", w.permits)
	}
	w.mu.Unlock()

	must(t, w.s.current().reload(&Change{Policy: w.s.Policy, Generation: 2}))
	w.wantStatus("a name that is no longer in the hosts file", "10.0.0.5:80", getRequest("intranet.test"), 403)
}
