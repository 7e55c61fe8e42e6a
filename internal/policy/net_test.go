package policy_test

import (
	"net/netip"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

func TestCheckNet(t *testing.T) {
	port := func(h string, n int) policy.NetRule { return policy.NetRule{Host: h, Port: n, Allow: true} }
	for _, x := range []struct {
		name   string
		rules  []policy.NetRule
		target string
		want   policy.Reason
	}{
		{"wildcard, one label", []policy.NetRule{policytest.Host("*.example.com", true)}, "https://a.example.com/", policy.Allowed},
		{"wildcard, two labels", []policy.NetRule{policytest.Host("*.example.com", true)}, "https://a.b.example.com/", policy.Allowed},
		{"wildcard, never the apex", []policy.NetRule{policytest.Host("*.example.com", true)}, "https://example.com/", policy.HostNotListed},
		{"wildcard, by label", []policy.NetRule{policytest.Host("*.example.com", true)}, "https://anexample.com/", policy.HostNotListed},
		{"wildcard doesn't open the rest", []policy.NetRule{policytest.Host("*.x.com", true)}, "https://evil.net/", policy.HostNotListed},
		{"exact beats wildcard", []policy.NetRule{policytest.Host("a.example.com", false), policytest.Host("*.example.com", true)}, "https://a.example.com/", policy.RuleDenies},
		{"longer wildcard beats shorter", []policy.NetRule{policytest.Host("*.b.example.com", false), policytest.Host("*.example.com", true)}, "https://a.b.example.com/", policy.RuleDenies},
		{"last wins", []policy.NetRule{policytest.Host("a.com", false), policytest.Host("a.com", true)}, "https://a.com/", policy.Allowed},
		{"port beats none", []policy.NetRule{{Host: "a.com", Port: 443}, policytest.Host("a.com", true)}, "https://a.com/", policy.RuleDenies},
		{"scheme must match", []policy.NetRule{{Host: "a.com", Scheme: "https", Allow: true}}, "http://a.com/", policy.HostNotListed},
		{"scheme's port", []policy.NetRule{{Host: "a.com", Scheme: "https", Allow: true}}, "https://a.com:444/", policy.HostNotListed},
		{"parts beat hosts", []policy.NetRule{{Host: "*.a.com", Scheme: "https"}, policytest.Host("x.a.com", true)}, "https://x.a.com/", policy.RuleDenies},
		{"raw needs a port", []policy.NetRule{policytest.Host("a.com", true)}, "tcp://a.com:443", policy.HostNotListed},
		{"raw with its port", []policy.NetRule{port("a.com", 443)}, "tcp://a.com:443", policy.Allowed},
		{"raw isn't a scheme", []policy.NetRule{{Host: "a.com", Scheme: "https", Port: 443, Allow: true}}, "tcp://a.com:443", policy.HostNotListed},
		{"raw could be what is denied", []policy.NetRule{port("a.com", 443), {Host: "a.com", Port: 443, PathPrefix: "/admin"}}, "tcp://a.com:443", policy.RuleDenies},
		{"raw on another port couldn't", []policy.NetRule{port("a.com", 443), {Host: "a.com", Scheme: "http", PathPrefix: "/admin"}}, "tcp://a.com:443", policy.Allowed},
		{"udp isn't tcp", []policy.NetRule{port("a.com", 53)}, "udp://a.com:53", policy.HostNotListed},
		{"udp", []policy.NetRule{{Host: "a.com", Port: 53, Protocol: "udp", Allow: true}}, "udp://a.com:53", policy.Allowed},
		{"no address is the machine's own", []policy.NetRule{policytest.Host("127.0.0.1", true), policytest.Host("0.0.0.0", false)}, "http://0.0.0.0/", policy.Allowed},
		{"no address, of IPv6", []policy.NetRule{policytest.Host("::1", false), policytest.Host("::", true)}, "http://[::]/", policy.RuleDenies},
		{"no address, as localhost", []policy.NetRule{policytest.Host("localhost", true)}, "http://[::ffff:0.0.0.0]/", policy.Allowed},
		{"range", []policy.NetRule{policytest.Host("10.0.0.0/8", true)}, "http://10.1.2.3/", policy.Allowed},
		{"a denied address, on any port", []policy.NetRule{policytest.Host("10.0.0.0/8", false)}, "tcp://10.1.2.3:5432", policy.RuleDenies},
		{"by UDP too", []policy.NetRule{policytest.Host("10.0.0.0/8", false)}, "udp://10.1.2.3:5432", policy.RuleDenies},
		{"with any content", []policy.NetRule{policytest.Host("localhost", false)}, "https://127.0.0.1:8443/", policy.RuleDenies},
		{"of one protocol alone", []policy.NetRule{{Host: "10.0.0.0/8", Protocol: "udp"}, port("10.0.0.0/8", 53)}, "tcp://10.1.2.3:53", policy.Allowed},
		{"of one protocol", []policy.NetRule{{Host: "10.0.0.0/8", Protocol: "udp"}}, "udp://10.1.2.3:53", policy.RuleDenies},
		{"but for the ports that are granted", []policy.NetRule{port("10.0.0.0/8", 5432), policytest.Host("10.0.0.0/8", false)}, "tcp://10.1.2.3:5432", policy.Allowed},
		{"but for nearer addresses", []policy.NetRule{policytest.Host("10.1.0.0/16", true), policytest.Host("10.0.0.0/8", false)}, "https://10.1.2.3/", policy.Allowed},
		{"a scheme's denial is of that", []policy.NetRule{port("10.0.0.0/8", 5432), {Host: "10.0.0.0/8", Scheme: "http"}}, "tcp://10.1.2.3:5432", policy.Allowed},
		{"by NAT64", []policy.NetRule{policytest.Host("::/0", true), policytest.Host("10.0.0.0/8", false)}, "https://[64:ff9b::a01:203]/", policy.RuleDenies},
		{"by 6to4", []policy.NetRule{policytest.Host("2002::/16", true), policytest.Host("10.0.0.0/8", false)}, "https://[2002:a01:203::1]/", policy.RuleDenies},
		{"by NAT64, another", []policy.NetRule{policytest.Host("::/0", true), policytest.Host("10.0.0.0/8", false)}, "https://[64:ff9b::b01:203]/", policy.Allowed},
		{"NAT64 needs a grant", []policy.NetRule{policytest.Host("10.0.0.0/8", true)}, "https://[64:ff9b::a01:203]/", policy.HostNotListed},
		{"longer range", []policy.NetRule{policytest.Host("10.1.0.0/16", false), policytest.Host("10.0.0.0/8", true)}, "http://10.1.2.3/", policy.RuleDenies},
		{"address beats range", []policy.NetRule{policytest.Host("10.1.2.3", true), policytest.Host("10.1.2.0/24", false)}, "http://10.1.2.3/", policy.Allowed},
		{"mapped is v4", []policy.NetRule{policytest.Host("10.0.0.0/8", true)}, "http://[::ffff:10.1.2.3]/", policy.Allowed},
		{"v6 range", []policy.NetRule{policytest.Host("fd00::/8", true)}, "http://[fd00::1]/", policy.Allowed},
		{"v4 isn't in a v6 range", []policy.NetRule{policytest.Host("::/0", true)}, "http://10.1.2.3/", policy.HostNotListed},
		{"a name is in no range", []policy.NetRule{policytest.Host("0.0.0.0/0", true)}, "http://a.com/", policy.HostNotListed},
		{"localhost", []policy.NetRule{port("localhost", 8080)}, "http://localhost:8080/", policy.Allowed},
		{"localhost is its addresses", []policy.NetRule{port("localhost", 8080)}, "http://127.0.0.1:8080/", policy.Allowed},
		{"localhost is v6, too", []policy.NetRule{port("localhost", 8080)}, "http://[::1]:8080/", policy.Allowed},
		{"localhost is no range", []policy.NetRule{port("localhost", 8080)}, "http://127.0.0.2:8080/", policy.HostNotListed},
		{"path", []policy.NetRule{{Host: "a.com", PathPrefix: "/a/b", Allow: true}}, "https://a.com/a/b/c", policy.Allowed},
		{"path, by segment", []policy.NetRule{{Host: "a.com", PathPrefix: "/a/b", Allow: true}}, "https://a.com/a/bc", policy.HostNotListed},
		{"path, decoded", []policy.NetRule{policytest.Host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/%61dmin", policy.RuleDenies},
		{"path, dots deny", []policy.NetRule{policytest.Host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/x/../admin", policy.RuleDenies},
		{"path, doubled slash denies", []policy.NetRule{policytest.Host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com//admin", policy.RuleDenies},
		{"path, dots grant nothing", []policy.NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/../admin", policy.HostNotListed},
		{"path, encoded slash", []policy.NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub%2f..%2fadmin", policy.HostNotListed},
		{"path, dots and a space", []policy.NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/..%20/admin", policy.HostNotListed},
		{"path, dots and a colon", []policy.NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/..:/admin", policy.HostNotListed},
		{"path, overlong dots", []policy.NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/%c0%ae%c0%ae/admin", policy.HostNotListed},
		{"path, wide dots", []policy.NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/%ef%bc%8e%ef%bc%8e/admin", policy.HostNotListed},
		{"path, a dot at the end", []policy.NetRule{policytest.Host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/admin./x", policy.RuleDenies},
		{"path, a space at the end", []policy.NetRule{policytest.Host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/admin%20/x", policy.RuleDenies},
		{"path, an encoded query", []policy.NetRule{policytest.Host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/admin%3fx", policy.RuleDenies},
		{"path, letters beyond ASCII", []policy.NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/%c3%a9t%c3%a9.txt", policy.Allowed},
		{"odd paths elsewhere are fine", []policy.NetRule{policytest.Host("a.com", true)}, "https://a.com/x//y;z/../w", policy.Allowed},
	} {
		c := policytest.Compile(t, policy.SourceLayer{Net: x.rules, TLSIntercept: true})
		target, err := netname.ParseTarget(x.target)
		childtest.Must(t, err)
		if v := c.CheckNet(&target); v.Reason != x.want {
			t.Errorf("%s: %+v, want %s", x.name, v, x.want)
		}
	}
}

func TestMethodsAndListen(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{TLSIntercept: true, Net: []policy.NetRule{
		{Host: "a.com", Methods: []string{"GET", "HEAD"}, Allow: true},
		{Host: "b.com", Allow: true},
		{Host: "b.com", Methods: []string{"DELETE"}},
		{Host: "localhost", Port: 8080, Listen: true, Allow: true},
		{Port: 9090, Listen: true, Allow: true},
	}})
	for _, x := range []struct {
		q    explain.Question
		want policy.Reason
	}{
		{explain.Question{Target: "https://a.com/"}, policy.Allowed},
		{explain.Question{Target: "https://a.com/", Method: "GET"}, policy.Allowed},
		{explain.Question{Target: "https://a.com/", Method: "POST"}, policy.HostNotListed},
		{explain.Question{Target: "https://b.com/"}, policy.Allowed},
		{explain.Question{Target: "https://b.com/", Method: "DELETE"}, policy.RuleDenies},
		{explain.Question{Target: "tcp://127.0.0.1:8080", Listen: true}, policy.Allowed},
		{explain.Question{Target: "tcp://127.0.0.1:8080"}, policy.HostNotListed},
		{explain.Question{Target: "tcp://0.0.0.0:8080", Listen: true}, policy.HostNotListed},
		{explain.Question{Target: "tcp://0.0.0.0:9090", Listen: true}, policy.Allowed},
		{explain.Question{Target: "tcp://[::]:9090", Listen: true}, policy.Allowed},
		{explain.Question{Target: "https://x@a.com/"}, policy.HostMismatch},
	} {
		x.q.Resource = policy.Net
		if v, a := explain.Ask(c, policytest.Machine(), x.q); v.Reason != x.want {
			t.Errorf("%+v: %+v, want %s", x.q, a, x.want)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{Net: []policy.NetRule{policytest.Host("a.com", true), policytest.Host("10.9.0.0/16", true), policytest.Host("8.8.8.8", false), {Host: "localhost", Port: 80, Allow: true}}})
	target, _ := netname.ParseTarget("http://a.com/")
	for addr, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true, "10.9.1.1": true, "127.0.0.1": true,
		"127.0.0.2": false, "10.0.0.1": false, "172.16.0.1": false, "192.168.1.1": false, "169.254.169.254": false, "100.100.100.200": false, "168.63.129.16": false,
		"0.0.0.0": true, "192.0.0.192": false, "224.0.0.1": false, "255.255.255.255": false, "8.8.8.8": false, "fe80::1": false, "fd00:ec2::254": false, "::": true,
		"::ffff:10.0.0.1": false, "::ffff:10.9.0.1": true, "64:ff9b::a00:1": false, "64:ff9b::5db8:d822": true, "64:ff9b:1::a00:1": false, "64:ff9b:1:a00:0:100::": false, "2002:7f00:1::": false, "fe80::1%eth0": false, "::7f00:1": false,
	} {
		if v := c.CheckAddress(&target, netip.MustParseAddr(addr), false); v.Allow != want {
			t.Errorf("%s: %+v", addr, v)
		}
	}
	if v := c.CheckAddress(&target, netip.Addr{}, false); v.Allow {
		t.Errorf("no address: %+v", v)
	}
	two := policytest.Compile(t, policy.SourceLayer{Authority: policy.Host, Net: []policy.NetRule{policytest.Host("a.com", true)}}, policy.SourceLayer{Net: []policy.NetRule{policytest.Host("a.com", true), policytest.Host("9.9.9.9", true), policytest.Host("8.8.8.8", false)}})
	for addr, want := range map[string]bool{"9.9.9.9": true, "8.8.8.8": false} { // neither is one of the host's
		if v := two.CheckAddress(&target, netip.MustParseAddr(addr), false); v.Allow != want {
			t.Errorf("%s, by two: %+v", addr, v)
		}
	}
	open := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read)}})
	if v := open.CheckAddress(&target, netip.MustParseAddr("10.0.0.1"), false); !v.Allow {
		t.Errorf("net undeclared: %+v", v)
	}
}

// Where an authority grants nothing, no socket is needed.
func TestDeniesNet(t *testing.T) {
	for _, x := range []struct {
		defaultAction policy.DefaultAction
		rules         []policy.NetRule
		want          bool
	}{
		{policy.Undeclared, nil, false},
		{policy.Deny, nil, true},
		{policy.Undeclared, []policy.NetRule{policytest.Host("a.com", false)}, true},
		{policy.Undeclared, []policy.NetRule{policytest.Host("a.com", false), policytest.Host("b.com", true)}, false},
		{policy.Allow, []policy.NetRule{policytest.Host("a.com", false)}, false},
	} {
		l := policy.SourceLayer{Net: x.rules}
		l.Defaults[policy.Net] = x.defaultAction
		if got := policytest.Compile(t, l).DeniesNet(); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
