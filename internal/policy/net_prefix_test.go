package policy_test

import (
	"net/netip"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

func genNetPolicy(t *rapid.T) *policy.Compiled {
	var layers []policy.SourceLayer
	for _, a := range []policy.Authority{policy.Host, policy.Global, policy.Session}[:rapid.IntRange(1, 3).Draw(t, "layers")] {
		l := policy.SourceLayer{Authority: a, Net: rapid.SliceOfN(rapid.Custom(policytest.GenNet), 0, 5).Draw(t, "rules")}
		l.Defaults[policy.Net] = rapid.SampledFrom([]policy.DefaultAction{policy.Undeclared, policy.Deny, policy.Allow, policy.Allow}).Draw(t, "default")
		layers = append(layers, l)
	}
	return policytest.Compile(t, layers...)
}

// longest returns the longest range of a policy's rules, or of all, that contains an address.
func longest(c *policy.Compiled, a netip.Addr) netip.Prefix {
	best := netip.PrefixFrom(a, 0).Masked()
	for _, r := range c.Rules {
		if r.Net == nil {
			continue
		}
		for _, p := range r.Net.Prefixes() {
			if p.Contains(a) && p.Bits() > best.Bits() {
				best = p
			}
		}
	}
	return best
}

// The verdict on a range is the verdict on each of its addresses.
func TestPrefixAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genNetPolicy(t)
		target := netname.Target{
			Protocol: rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "protocol"), Port: uint16(policytest.SomePorts.Draw(t, "to port")),
			Listen: rapid.Bool().Draw(t, "to listen"),
		}
		if target.Protocol == "tcp" && !target.Listen {
			target.Scheme = policytest.SomeSchemes.Draw(t, "to scheme")
		}
		addr := netip.MustParseAddr(policytest.SomeAddrs.Draw(t, "to")).Unmap()
		at := target
		at.Addr = addr
		if got, want := c.CheckPrefix(&target, longest(c, at.Dest())), c.CheckNet(&at); got != want {
			t.Fatalf("%s is %+v, its range %s %+v", &at, want, longest(c, at.Dest()), got)
		}
	})
}

// A target that is direct is denied with no content and granted with some, and its names too.
func TestDirectIsGranted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := genNetPolicy(t)
		addr, port := netip.MustParseAddr(policytest.SomeAddrs.Draw(t, "to")).Unmap(), uint16(policytest.SomePorts.Draw(t, "to port"))
		at := netname.Target{Protocol: "tcp", Addr: addr, Port: port}
		direct := c.Directly("tcp")(port, longest(c, at.Dest()))
		granted := false
		for _, at.Scheme = range []string{"", "http", "https", "ws", "wss", "ssh", "git"} {
			named := netname.Target{Scheme: at.Scheme, Protocol: "tcp", Host: "x.a.com", Port: port, Path: []string{"x"}}
			v := c.CheckNet(&at)
			granted = granted || v.Allow
			if n := c.CheckNet(&named); direct.Allow && (v.Reason == policy.RuleDenies || n.Reason == policy.RuleDenies) {
				t.Fatalf("%s is direct, and %s %+v, %s %+v", addr, &at, v, &named, n)
			}
		}
		if direct.Allow && !granted {
			t.Fatalf("%s, port %d, is direct by %+v, and nothing grants it", addr, port, direct)
		}
	})
}

func TestDirectly(t *testing.T) {
	tcp := func(h string, port int) policy.NetRule { return policy.NetRule{Host: h, Port: port, Allow: true} }
	for _, x := range []struct {
		name  string
		rules []policy.NetRule
		port  uint16
		want  bool
	}{
		{"a port", []policy.NetRule{tcp("10.0.0.0/8", 5432)}, 5432, true},
		{"another port", []policy.NetRule{tcp("10.0.0.0/8", 5432)}, 5433, false},
		{"usual ports", []policy.NetRule{policytest.Host("10.0.0.0/8", true)}, 443, true},
		{"no usual port", []policy.NetRule{policytest.Host("10.0.0.0/8", true)}, 8443, false},
		{"ssh can't be seen", []policy.NetRule{{Host: "10.0.0.0/8", Scheme: "ssh", Allow: true}}, 22, true},
		{"https can", []policy.NetRule{{Host: "10.0.0.0/8", Scheme: "https", Allow: true}}, 443, false},
		{"another name", []policy.NetRule{policytest.Host("10.0.0.0/8", true), policytest.Host("a.com", true)}, 443, true},
		{"a denied name", []policy.NetRule{policytest.Host("10.0.0.0/8", true), policytest.Host("a.com", false)}, 443, false},
		{"a denied name elsewhere", []policy.NetRule{tcp("10.0.0.0/8", 5432), policytest.Host("a.com", false)}, 5432, true},
		{"a longer range", []policy.NetRule{policytest.Host("10.0.0.0/8", true), policytest.Host("10.0.0.0/9", false)}, 443, false},
		{"a denied range in it", []policy.NetRule{tcp("10.0.0.0/8", 80), policytest.Host("10.1.0.0/16", false)}, 5432, false},
		{"a path", []policy.NetRule{tcp("10.0.0.0/8", 80), {Host: "10.0.0.0/8", Scheme: "http", PathPrefix: "/x"}}, 80, false},
	} {
		c := policytest.Compile(t, policy.SourceLayer{Net: x.rules})
		if v := c.Directly("tcp")(x.port, longest(c, netip.MustParseAddr("10.1.2.3"))); v.Allow != x.want {
			t.Errorf("%s: %+v", x.name, v)
		}
	}
	// Port 0 represents the ports that no rule names.
	c := policytest.Compile(t, policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Allow}, Net: []policy.NetRule{policytest.Host("a.com", false)}})
	if v := c.Directly("tcp")(0, longest(c, netip.MustParseAddr("10.1.2.3"))); !v.Allow {
		t.Errorf("a name that is denied denies ports that its rule doesn't speak of: %+v", v)
	}
	l := policytest.Compile(t, policy.SourceLayer{Net: []policy.NetRule{policytest.Host("a.com", true)}}).Layers
	if ports := l[len(l)-1].Net.Rules()[0].Net.Ports(); len(ports) != 4 || !slices.Contains(ports, 9418) {
		t.Errorf("a host alone is about the ports %v", ports)
	}
}
