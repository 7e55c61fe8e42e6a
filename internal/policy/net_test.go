package policy

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/netname"
)

func TestCheckNet(t *testing.T) {
	port := func(h string, n int) NetRule { return NetRule{Host: h, Port: n, Allow: true} }
	for _, x := range []struct {
		name   string
		rules  []NetRule
		target string
		want   Reason
	}{
		{"wildcard, one label", []NetRule{host("*.example.com", true)}, "https://a.example.com/", Allowed},
		{"wildcard, two labels", []NetRule{host("*.example.com", true)}, "https://a.b.example.com/", Allowed},
		{"wildcard, never the apex", []NetRule{host("*.example.com", true)}, "https://example.com/", HostNotListed},
		{"wildcard, by label", []NetRule{host("*.example.com", true)}, "https://anexample.com/", HostNotListed},
		{"wildcard doesn't open the rest", []NetRule{host("*.x.com", true)}, "https://evil.net/", HostNotListed},
		{"exact beats wildcard", []NetRule{host("a.example.com", false), host("*.example.com", true)}, "https://a.example.com/", RuleDenies},
		{"longer wildcard beats shorter", []NetRule{host("*.b.example.com", false), host("*.example.com", true)}, "https://a.b.example.com/", RuleDenies},
		{"last wins", []NetRule{host("a.com", false), host("a.com", true)}, "https://a.com/", Allowed},
		{"port beats none", []NetRule{{Host: "a.com", Port: 443}, host("a.com", true)}, "https://a.com/", RuleDenies},
		{"scheme must match", []NetRule{{Host: "a.com", Scheme: "https", Allow: true}}, "http://a.com/", HostNotListed},
		{"scheme's port", []NetRule{{Host: "a.com", Scheme: "https", Allow: true}}, "https://a.com:444/", HostNotListed},
		{"parts beat hosts", []NetRule{{Host: "*.a.com", Scheme: "https"}, host("x.a.com", true)}, "https://x.a.com/", RuleDenies},
		{"raw needs a port", []NetRule{host("a.com", true)}, "tcp://a.com:443", HostNotListed},
		{"raw with its port", []NetRule{port("a.com", 443)}, "tcp://a.com:443", Allowed},
		{"raw isn't a scheme", []NetRule{{Host: "a.com", Scheme: "https", Port: 443, Allow: true}}, "tcp://a.com:443", HostNotListed},
		{"raw could be what is denied", []NetRule{port("a.com", 443), {Host: "a.com", Port: 443, PathPrefix: "/admin"}}, "tcp://a.com:443", RuleDenies},
		{"raw on another port couldn't", []NetRule{port("a.com", 443), {Host: "a.com", Scheme: "http", PathPrefix: "/admin"}}, "tcp://a.com:443", Allowed},
		{"udp isn't tcp", []NetRule{port("a.com", 53)}, "udp://a.com:53", HostNotListed},
		{"udp", []NetRule{{Host: "a.com", Port: 53, Protocol: "udp", Allow: true}}, "udp://a.com:53", Allowed},
		{"no address is the machine's own", []NetRule{host("127.0.0.1", true), host("0.0.0.0", false)}, "http://0.0.0.0/", Allowed},
		{"no address, of IPv6", []NetRule{host("::1", false), host("::", true)}, "http://[::]/", RuleDenies},
		{"no address, as localhost", []NetRule{host("localhost", true)}, "http://[::ffff:0.0.0.0]/", Allowed},
		{"range", []NetRule{host("10.0.0.0/8", true)}, "http://10.1.2.3/", Allowed},
		{"a denied address, on any port", []NetRule{host("10.0.0.0/8", false)}, "tcp://10.1.2.3:5432", RuleDenies},
		{"by UDP too", []NetRule{host("10.0.0.0/8", false)}, "udp://10.1.2.3:5432", RuleDenies},
		{"and whatever is said", []NetRule{host("localhost", false)}, "https://127.0.0.1:8443/", RuleDenies},
		{"of one protocol alone", []NetRule{{Host: "10.0.0.0/8", Protocol: "udp"}, port("10.0.0.0/8", 53)}, "tcp://10.1.2.3:53", Allowed},
		{"of one protocol", []NetRule{{Host: "10.0.0.0/8", Protocol: "udp"}}, "udp://10.1.2.3:53", RuleDenies},
		{"but for the ports that are granted", []NetRule{port("10.0.0.0/8", 5432), host("10.0.0.0/8", false)}, "tcp://10.1.2.3:5432", Allowed},
		{"but for nearer addresses", []NetRule{host("10.1.0.0/16", true), host("10.0.0.0/8", false)}, "https://10.1.2.3/", Allowed},
		{"a scheme's denial is of that", []NetRule{port("10.0.0.0/8", 5432), {Host: "10.0.0.0/8", Scheme: "http"}}, "tcp://10.1.2.3:5432", Allowed},
		{"by NAT64", []NetRule{host("::/0", true), host("10.0.0.0/8", false)}, "https://[64:ff9b::a01:203]/", RuleDenies},
		{"by 6to4", []NetRule{host("2002::/16", true), host("10.0.0.0/8", false)}, "https://[2002:a01:203::1]/", RuleDenies},
		{"by NAT64, another", []NetRule{host("::/0", true), host("10.0.0.0/8", false)}, "https://[64:ff9b::b01:203]/", Allowed},
		{"NAT64 needs a grant", []NetRule{host("10.0.0.0/8", true)}, "https://[64:ff9b::a01:203]/", HostNotListed},
		{"longer range", []NetRule{host("10.1.0.0/16", false), host("10.0.0.0/8", true)}, "http://10.1.2.3/", RuleDenies},
		{"address beats range", []NetRule{host("10.1.2.3", true), host("10.1.2.0/24", false)}, "http://10.1.2.3/", Allowed},
		{"mapped is v4", []NetRule{host("10.0.0.0/8", true)}, "http://[::ffff:10.1.2.3]/", Allowed},
		{"v6 range", []NetRule{host("fd00::/8", true)}, "http://[fd00::1]/", Allowed},
		{"v4 isn't in a v6 range", []NetRule{host("::/0", true)}, "http://10.1.2.3/", HostNotListed},
		{"a name is in no range", []NetRule{host("0.0.0.0/0", true)}, "http://a.com/", HostNotListed},
		{"localhost", []NetRule{port("localhost", 8080)}, "http://localhost:8080/", Allowed},
		{"localhost is its addresses", []NetRule{port("localhost", 8080)}, "http://127.0.0.1:8080/", Allowed},
		{"localhost is v6, too", []NetRule{port("localhost", 8080)}, "http://[::1]:8080/", Allowed},
		{"localhost is no range", []NetRule{port("localhost", 8080)}, "http://127.0.0.2:8080/", HostNotListed},
		{"path", []NetRule{{Host: "a.com", PathPrefix: "/a/b", Allow: true}}, "https://a.com/a/b/c", Allowed},
		{"path, by segment", []NetRule{{Host: "a.com", PathPrefix: "/a/b", Allow: true}}, "https://a.com/a/bc", HostNotListed},
		{"path, decoded", []NetRule{host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/%61dmin", RuleDenies},
		{"path, dots deny", []NetRule{host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/x/../admin", RuleDenies},
		{"path, doubled slash denies", []NetRule{host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com//admin", RuleDenies},
		{"path, dots grant nothing", []NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/../admin", HostNotListed},
		{"path, encoded slash", []NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub%2f..%2fadmin", HostNotListed},
		{"path, dots and a space", []NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/..%20/admin", HostNotListed},
		{"path, dots and a colon", []NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/..:/admin", HostNotListed},
		{"path, overlong dots", []NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/%c0%ae%c0%ae/admin", HostNotListed},
		{"path, wide dots", []NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/%ef%bc%8e%ef%bc%8e/admin", HostNotListed},
		{"path, a dot at the end", []NetRule{host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/admin./x", RuleDenies},
		{"path, a space at the end", []NetRule{host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/admin%20/x", RuleDenies},
		{"path, an encoded query", []NetRule{host("a.com", true), {Host: "a.com", PathPrefix: "/admin"}}, "https://a.com/admin%3fx", RuleDenies},
		{"path, letters beyond ASCII", []NetRule{{Host: "a.com", PathPrefix: "/pub", Allow: true}}, "https://a.com/pub/%c3%a9t%c3%a9.txt", Allowed},
		{"odd paths elsewhere are fine", []NetRule{host("a.com", true)}, "https://a.com/x//y;z/../w", Allowed},
	} {
		c := compile(t, SourceLayer{Net: x.rules, TLSIntercept: true})
		target, err := netname.ParseTarget(x.target)
		childtest.Must(t, err)
		if v := c.CheckNet(&target); v.Reason != x.want {
			t.Errorf("%s: %+v, want %s", x.name, v, x.want)
		}
	}
}

// What looks the same on a connection is decided the same: under TLS by what names https, then wss, else by what denies.
func TestAlike(t *testing.T) {
	rule := func(scheme string, port int, allow bool) NetRule {
		return NetRule{Host: "a.com", Scheme: scheme, Port: port, Allow: allow}
	}
	for _, x := range []struct {
		name    string
		reads   bool
		rules   []NetRule
		targets string
		want    Reason
	}{
		{"wss is granted", false, []NetRule{rule("wss", 0, true)}, "https://a.com/ wss://a.com/", Allowed},
		{"https is granted", false, []NetRule{rule("https", 0, true)}, "https://a.com/ wss://a.com/", Allowed},
		{"wss is denied", false, []NetRule{host("a.com", true), rule("wss", 0, false)}, "https://a.com/ wss://a.com/", RuleDenies},
		{"https is denied", false, []NetRule{rule("wss", 0, true), rule("https", 0, false)}, "https://a.com/ wss://a.com/", RuleDenies},
		{"https is granted, before or later", false, []NetRule{rule("wss", 0, false), rule("https", 0, true), rule("wss", 0, false)}, "https://a.com/ wss://a.com/", Allowed},
		{"https is granted, beside a denial of all", false, []NetRule{rule("https", 443, true), host("a.com", false)}, "https://a.com/ wss://a.com/", Allowed},
		{"and one of the port", false, []NetRule{rule("https", 443, true), rule("", 443, false)}, "https://a.com/ wss://a.com/", Allowed},
		{"wss is granted, beside a denial of all", false, []NetRule{rule("wss", 0, true), host("a.com", false)}, "https://a.com/ wss://a.com/", Allowed},
		{"elsewhere", false, []NetRule{rule("wss", 0, true)}, "https://a.com:8443/ http://a.com/ ws://a.com/ tcp://a.com:443", HostNotListed},
		{"TLS is read: wss", true, []NetRule{rule("wss", 0, true)}, "https://a.com/", HostNotListed},
		{"TLS is read: denied", true, []NetRule{host("a.com", true), rule("wss", 0, false)}, "https://a.com/", Allowed},
		{"the port is denied", false, []NetRule{host("a.com", true), rule("", 443, false)}, "https://a.com/ wss://a.com/", RuleDenies},
		{"ssh", false, []NetRule{rule("ssh", 0, true)}, "ssh://a.com/ tcp://a.com:22 git://a.com:22/", Allowed},
		{"any scheme", false, []NetRule{host("a.com", true)}, "tcp://a.com:22 tcp://a.com:9418", Allowed},
		{"ssh is denied", false, []NetRule{rule("", 22, true), rule("ssh", 0, false)}, "ssh://a.com/ tcp://a.com:22 git://a.com:22/", RuleDenies},
		{"http is denied there", false, []NetRule{rule("", 22, true), rule("http", 22, false)}, "ssh://a.com/ tcp://a.com:22", RuleDenies},
	} {
		c := compile(t, SourceLayer{Net: x.rules, TLSIntercept: x.reads})
		for url := range strings.FieldsSeq(x.targets) {
			v, a := ask(c, machine(), Question{Resource: Net, Target: url})
			if v.Reason != x.want {
				t.Errorf("%s: %s: %+v, want %s", x.name, url, v, x.want)
			}
			r, ok := NetRule{}, false
			if !v.Allow {
				r, ok = suggestNet(v, c.Layers[v.Layer], &a)
			}
			if ok == v.Allow && x.name != "http is denied there" { // what denies a scheme and port there is beaten by no raw port
				t.Errorf("%s: %s: %v, suggested %+v", x.name, url, v.Allow, r)
			}
			if !ok {
				continue
			}
			more := compile(t, SourceLayer{Net: append(slices.Clip(x.rules), r), TLSIntercept: x.reads})
			if v, _ := ask(more, machine(), Question{Resource: Net, Target: url}); !v.Allow {
				t.Errorf("%s: %s isn't granted by what is suggested: %+v", x.name, url, r)
			}
		}
	}
}

func TestMethodsAndListen(t *testing.T) {
	c := compile(t, SourceLayer{TLSIntercept: true, Net: []NetRule{
		{Host: "a.com", Methods: []string{"GET", "HEAD"}, Allow: true},
		{Host: "b.com", Allow: true},
		{Host: "b.com", Methods: []string{"DELETE"}},
		{Host: "localhost", Port: 8080, Listen: true, Allow: true},
		{Port: 9090, Listen: true, Allow: true},
	}})
	for _, x := range []struct {
		q    Question
		want Reason
	}{
		{Question{Target: "https://a.com/"}, Allowed},
		{Question{Target: "https://a.com/", Method: "GET"}, Allowed},
		{Question{Target: "https://a.com/", Method: "POST"}, HostNotListed},
		{Question{Target: "https://b.com/"}, Allowed},
		{Question{Target: "https://b.com/", Method: "DELETE"}, RuleDenies},
		{Question{Target: "tcp://127.0.0.1:8080", Listen: true}, Allowed},
		{Question{Target: "tcp://127.0.0.1:8080"}, HostNotListed},
		{Question{Target: "tcp://0.0.0.0:8080", Listen: true}, HostNotListed},
		{Question{Target: "tcp://0.0.0.0:9090", Listen: true}, Allowed},
		{Question{Target: "tcp://[::]:9090", Listen: true}, Allowed},
		{Question{Target: "https://x@a.com/"}, HostMismatch},
	} {
		x.q.Resource = Net
		if v, a := Ask(c, machine(), x.q); v.Reason != x.want {
			t.Errorf("%+v: %+v, want %s", x.q, a, x.want)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	c := compile(t, SourceLayer{Net: []NetRule{host("a.com", true), host("10.9.0.0/16", true), host("8.8.8.8", false), {Host: "localhost", Port: 80, Allow: true}}})
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
	two := compile(t, SourceLayer{Authority: Host, Net: []NetRule{host("a.com", true)}}, SourceLayer{Net: []NetRule{host("a.com", true), host("9.9.9.9", true), host("8.8.8.8", false)}})
	for addr, want := range map[string]bool{"9.9.9.9": true, "8.8.8.8": false} { // neither is one of the host's
		if v := two.CheckAddress(&target, netip.MustParseAddr(addr), false); v.Allow != want {
			t.Errorf("%s, by two: %+v", addr, v)
		}
	}
	open := compile(t, SourceLayer{FS: []FSRule{p(".", Read)}})
	if v := open.CheckAddress(&target, netip.MustParseAddr("10.0.0.1"), false); !v.Allow {
		t.Errorf("net undeclared: %+v", v)
	}
}

// Where an authority grants nothing no socket is needed.
func TestRefusesNet(t *testing.T) {
	for _, x := range []struct {
		stance Stance
		rules  []NetRule
		want   bool
	}{
		{Undeclared, nil, false},
		{Deny, nil, true},
		{Undeclared, []NetRule{host("a.com", false)}, true},
		{Undeclared, []NetRule{host("a.com", false), host("b.com", true)}, false},
		{Allow, []NetRule{host("a.com", false)}, false},
	} {
		l := SourceLayer{Net: x.rules}
		l.Defaults[Net] = x.stance
		if got := compile(t, l).RefusesNet(); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
