package explain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// The suggested rule allows the denied target, and no other target except those that look the same.
func TestSuggestedGrants(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 2))
	pick := func(l ...string) string { return l[rnd.IntN(len(l))] }
	rule := func() policy.NetRule {
		r := policy.NetRule{Host: pick("a.com", "b.com", "*.com", "10.0.0.0/8", "10.1.1.1", "localhost", "127.0.0.1"), Scheme: pick("", "", "http", "https", "wss", "ssh")}
		r.Port, r.Allow = []int{0, 0, 80, 443, 22, 8080}[rnd.IntN(6)], rnd.IntN(2) == 0
		if r.Scheme == "http" && rnd.IntN(2) == 0 {
			r.PathPrefix, r.Methods = pick("", "/x", "/x/y"), [][]string{nil, {"GET"}, {"POST"}}[rnd.IntN(3)]
		}
		return r
	}
	target := func() netname.Target {
		host := pick("a.com", "b.com", "c.org", "10.1.1.1", "10.2.2.2", "127.0.0.1", "0.0.0.0")
		scheme := pick("tcp", "tcp", "http", "http", "https", "wss", "ws", "ssh", "udp")
		tail := ""
		if scheme == "http" {
			tail = pick("", "/x", "/x/y/z", "/z", "/x%20y", "/x/../y")
		}
		out, err := netname.ParseTarget(fmt.Sprintf("%s://%s:%s%s", scheme, host, pick("80", "443", "22", "8080"), tail))
		childtest.Must(t, err)
		if scheme == "http" {
			out.Method = pick("GET", "POST", "PUT")
		}
		return out
	}
	suggested := 0
	for range 4000 {
		var rules []policy.NetRule
		for range rnd.IntN(5) {
			rules = append(rules, rule())
		}
		before := policytest.Compile(t, policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny}, Net: rules})
		asks := target()
		v := before.CheckNet(&asks)
		if v.Allow {
			continue
		}
		r, ok := suggestNet(v, before.Layers[v.Layer], &asked{net: asks})
		if !ok {
			if !asks.Odd && v.Reason == policy.HostNotListed { // what's denied in part can't be granted as a whole
				t.Errorf("%+v: nothing is suggested for %s %s", rules, asks.Method, asks.String())
			}
			continue
		}
		suggested++
		if r.Scheme == "" && r.Port == 0 {
			t.Errorf("%s: %+v says neither scheme nor port", asks.String(), r)
		}
		after := policytest.Compile(t, policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny}, Net: append(slices.Clone(rules), r)})
		if !after.CheckNet(&asks).Allow {
			t.Errorf("%+v: with %+v %s is still denied", rules, r, asks.String())
		}
		for range 50 {
			o := target()
			if before.CheckNet(&o).Allow || !after.CheckNet(&o).Allow {
				continue
			}
			beneath := len(o.Path) >= len(asks.Path) && slices.Equal(o.Path[:len(asks.Path)], asks.Path)
			if o.Host != asks.Host || o.Dest() != asks.Dest() || o.Port != asks.Port || o.Protocol != asks.Protocol ||
				r.Scheme == "http" && (o.Method != asks.Method || !beneath) {
				t.Errorf("%+v: %+v for %s %s grants %s %s too", rules, r, asks.Method, asks.String(), o.Method, o.String())
			}
		}
	}
	if suggested < 100 {
		t.Errorf("%d suggestions: the test is empty", suggested)
	}
}

// Connections that look the same are decided by the same rule: under TLS by one that names https, then wss, else by one that denies.
func TestAlike(t *testing.T) {
	rule := func(scheme string, port int, allow bool) policy.NetRule {
		return policy.NetRule{Host: "a.com", Scheme: scheme, Port: port, Allow: allow}
	}
	for _, x := range []struct {
		name    string
		reads   bool
		rules   []policy.NetRule
		targets string
		want    policy.Reason
	}{
		{"wss is granted", false, []policy.NetRule{rule("wss", 0, true)}, "https://a.com/ wss://a.com/", policy.Allowed},
		{"https is granted", false, []policy.NetRule{rule("https", 0, true)}, "https://a.com/ wss://a.com/", policy.Allowed},
		{"wss is denied", false, []policy.NetRule{policytest.Host("a.com", true), rule("wss", 0, false)}, "https://a.com/ wss://a.com/", policy.RuleDenies},
		{"https is denied", false, []policy.NetRule{rule("wss", 0, true), rule("https", 0, false)}, "https://a.com/ wss://a.com/", policy.RuleDenies},
		{"https is granted, before or later", false, []policy.NetRule{rule("wss", 0, false), rule("https", 0, true), rule("wss", 0, false)}, "https://a.com/ wss://a.com/", policy.Allowed},
		{"https is granted, with a denial of all", false, []policy.NetRule{rule("https", 443, true), policytest.Host("a.com", false)}, "https://a.com/ wss://a.com/", policy.Allowed},
		{"and one of the port", false, []policy.NetRule{rule("https", 443, true), rule("", 443, false)}, "https://a.com/ wss://a.com/", policy.Allowed},
		{"wss is granted, with a denial of all", false, []policy.NetRule{rule("wss", 0, true), policytest.Host("a.com", false)}, "https://a.com/ wss://a.com/", policy.Allowed},
		{"elsewhere", false, []policy.NetRule{rule("wss", 0, true)}, "https://a.com:8443/ http://a.com/ ws://a.com/ tcp://a.com:443", policy.HostNotListed},
		{"TLS is read: wss", true, []policy.NetRule{rule("wss", 0, true)}, "https://a.com/", policy.HostNotListed},
		{"TLS is read: denied", true, []policy.NetRule{policytest.Host("a.com", true), rule("wss", 0, false)}, "https://a.com/", policy.Allowed},
		{"the port is denied", false, []policy.NetRule{policytest.Host("a.com", true), rule("", 443, false)}, "https://a.com/ wss://a.com/", policy.RuleDenies},
		{"ssh", false, []policy.NetRule{rule("ssh", 0, true)}, "ssh://a.com/ tcp://a.com:22 git://a.com:22/", policy.Allowed},
		{"any scheme", false, []policy.NetRule{policytest.Host("a.com", true)}, "tcp://a.com:22 tcp://a.com:9418", policy.Allowed},
		{"ssh is denied", false, []policy.NetRule{rule("", 22, true), rule("ssh", 0, false)}, "ssh://a.com/ tcp://a.com:22 git://a.com:22/", policy.RuleDenies},
		{"http is denied there", false, []policy.NetRule{rule("", 22, true), rule("http", 22, false)}, "ssh://a.com/ tcp://a.com:22", policy.RuleDenies},
	} {
		c := policytest.Compile(t, policy.SourceLayer{Net: x.rules, TLSIntercept: x.reads})
		for url := range strings.FieldsSeq(x.targets) {
			v, a := ask(c, policytest.Machine(), Question{Resource: policy.Net, Target: url})
			if v.Reason != x.want {
				t.Errorf("%s: %s: %+v, want %s", x.name, url, v, x.want)
			}
			r, ok := policy.NetRule{}, false
			if !v.Allow {
				r, ok = suggestNet(v, c.Layers[v.Layer], &a)
			}
			if ok == v.Allow && x.name != "http is denied there" { // what denies a scheme and port there is beaten by no raw port
				t.Errorf("%s: %s: %v, suggested %+v", x.name, url, v.Allow, r)
			}
			if !ok {
				continue
			}
			more := policytest.Compile(t, policy.SourceLayer{Net: append(slices.Clip(x.rules), r), TLSIntercept: x.reads})
			if v, _ := Ask(more, policytest.Machine(), Question{Resource: policy.Net, Target: url}); !v.Allow {
				t.Errorf("%s: %s isn't granted by what is suggested: %+v", x.name, url, r)
			}
		}
	}
}
