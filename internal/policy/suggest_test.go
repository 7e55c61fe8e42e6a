package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// Whatever is refused is allowed with the rule that's suggested, and nothing else is but what looks the same.
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
		before := policytest.Compile(t, policy.SourceLayer{Defaults: [policy.NumResources]policy.Stance{policy.Net: policy.Deny}, Net: rules})
		asks := target()
		v := before.CheckNet(&asks)
		if v.Allow {
			continue
		}
		r, ok := policy.SuggestNet(v, before.Layers[v.Layer], policy.AskedNet(asks))
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
		after := policytest.Compile(t, policy.SourceLayer{Defaults: [policy.NumResources]policy.Stance{policy.Net: policy.Deny}, Net: append(slices.Clone(rules), r)})
		if !after.CheckNet(&asks).Allow {
			t.Errorf("%+v: with %+v %s is still refused", rules, r, asks.String())
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
