package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

func TestWays(t *testing.T) {
	for _, x := range []struct {
		name   string
		layers []policy.SourceLayer
		host   string
		want   []string // "scheme port", in order; a "!" at its end: not direct
		why    policy.Reason
	}{
		{"a host alone", []policy.SourceLayer{{Net: []policy.NetRule{policytest.Host("a.com", true)}}}, "a.com", []string{"git 9418", "http 80!", "https 443!", "ssh 22", "ws 80!", "wss 443!"}, policy.Allowed},
		{"nothing", []policy.SourceLayer{{Net: []policy.NetRule{policytest.Host("a.com", true)}}}, "b.com", nil, policy.HostNotListed},
		{"not the apex", []policy.SourceLayer{{Net: []policy.NetRule{policytest.Host("*.a.com", true)}}}, "a.com", nil, policy.HostNotListed},
		{"denied", []policy.SourceLayer{{Net: []policy.NetRule{policytest.Host("a.com", false), policytest.Host("*.com", true)}}}, "a.com", nil, policy.RuleDenies},
		{"a scheme", []policy.SourceLayer{{Net: []policy.NetRule{{Host: "a.com", Scheme: "http", Port: 8080, Allow: true}}}}, "a.com", []string{"http 8080!"}, policy.HostNotListed},
		{"ssh", []policy.SourceLayer{{Net: []policy.NetRule{{Host: "*.a.com", Scheme: "ssh", Allow: true}}}}, "x.a.com", []string{"ssh 22"}, policy.HostNotListed},
		{"udp", []policy.SourceLayer{{Net: []policy.NetRule{{Host: "a.com", Protocol: "udp", Port: 443, Allow: true}}}}, "a.com", []string{" 443"}, policy.HostNotListed},
		{"https", []policy.SourceLayer{{Net: []policy.NetRule{{Host: "a.com", Scheme: "https", Allow: true}}}}, "a.com", []string{"https 443!", "wss 443!"}, policy.Allowed},
		{"https, and wss denied", []policy.SourceLayer{{Net: []policy.NetRule{policytest.Host("a.com", true), {Host: "a.com", Scheme: "wss"}}}}, "a.com", []string{"git 9418", "http 80!", "ssh 22", "ws 80!"}, policy.RuleDenies},
		{"a path", []policy.SourceLayer{{Net: []policy.NetRule{{Host: "a.com", Scheme: "http", PathPrefix: "/x", Allow: true}}}}, "a.com", []string{"http 80!"}, policy.HostNotListed},
		{"both layers", []policy.SourceLayer{
			{Authority: policy.Host, Net: []policy.NetRule{{Host: "*.com", Scheme: "http", PathPrefix: "/x", Allow: true}}},
			{Authority: policy.Session, Net: []policy.NetRule{{Host: "a.com", Scheme: "http", PathPrefix: "/x/y", Allow: true}}},
		}, "a.com", []string{"http 80!"}, policy.HostNotListed},
		{"one layer of two", []policy.SourceLayer{{Authority: policy.Host, Net: []policy.NetRule{policytest.Host("*.com", true)}}, {Authority: policy.Session, Net: []policy.NetRule{policytest.Host("b.com", true)}}}, "a.com", nil, policy.HostNotListed},
		{"listening is no way out", []policy.SourceLayer{{Net: []policy.NetRule{{Host: "localhost", Port: 80, Listen: true, Allow: true}}}}, "localhost", nil, policy.HostNotListed},
		{
			"a raw port",
			[]policy.SourceLayer{{Net: []policy.NetRule{{Host: "a.com", Port: 5432, Allow: true}, {Host: "a.com", Scheme: "http", Port: 5432}}}},
			"a.com",
			[]string{"https 5432!", "ws 5432!", "wss 5432!"},
			policy.HostNotListed,
		},
	} {
		ways, why := policytest.Compile(t, x.layers...).Ways(x.host)
		var got []string
		for _, w := range ways {
			s := fmt.Sprint(w.Target.Scheme, " ", w.Target.Port)
			if !w.Direct() {
				s += "!"
			}
			if !slices.Contains(got, s) {
				got = append(got, s)
			}
			if !w.Verdict.Allow || w.Verdict.Rule < 0 {
				t.Errorf("%s: %s is a way by %+v", x.name, s, w.Verdict)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, x.want) || why.Reason != x.why {
			t.Errorf("%s: %q, %s, want %q, %s", x.name, got, why.Reason, x.want, x.why)
		}
	}
}

// The part of a name that wildcards leave open is determined for each authority separately.
func TestOpen(t *testing.T) {
	wild := policy.SourceLayer{Authority: policy.Host, Net: []policy.NetRule{policytest.Host("*.a.com", true)}}
	all := policy.SourceLayer{Authority: policy.Session, Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Allow}}
	for _, x := range []struct {
		name   string
		layers []policy.SourceLayer
		want   string
		by     policy.Authority
	}{
		{"one", []policy.SourceLayer{wild}, "x.y", policy.Host},
		{"the longest", []policy.SourceLayer{{Authority: policy.Host, Net: []policy.NetRule{policytest.Host("*.a.com", true), policytest.Host("*.y.a.com", true)}}}, "x", policy.Host},
		{"the host too", []policy.SourceLayer{{Authority: policy.Host, Net: []policy.NetRule{policytest.Host("*.a.com", true), policytest.Host("x.y.a.com", true)}}}, "", 0},
		{"another allows all", []policy.SourceLayer{wild, all}, "x.y", policy.Host},
		{"another names the host", []policy.SourceLayer{wild, {Authority: policy.Session, Net: []policy.NetRule{policytest.Host("x.y.a.com", true)}}}, "x.y", policy.Host},
		{"another leaves more open", []policy.SourceLayer{wild, {Authority: policy.Session, Net: []policy.NetRule{policytest.Host("*.com", true)}}}, "x.y.a", policy.Session},
		{"all is allowed", []policy.SourceLayer{all}, "", 0},
	} {
		c := policytest.Compile(t, x.layers...)
		ways, _ := c.Ways("x.y.a.com")
		if open, v := c.Open("x.y.a.com", ways); open != x.want || open != "" && (c.Layers[v.Layer].Authority != x.by || c.Rules[v.Rule].Net.Suffix == "") {
			t.Errorf("%s: %q is open by %+v, want %q of %s", x.name, open, v, x.want, x.by)
		}
	}
}

func TestAskedPorts(t *testing.T) {
	for _, x := range []struct {
		rule policy.NetRule
		want []uint16
	}{
		{policytest.Host("a.com", true), []uint16{80, 443}},
		{policytest.Host("a.com", false), []uint16{22, 80, 443, 9418}},
		{policy.NetRule{Host: "a.com", Port: 443, Allow: true}, []uint16{443}},
		{policy.NetRule{Host: "a.com", Port: 5432, Allow: true}, nil},
		{policy.NetRule{Host: "a.com", Port: 5432}, []uint16{5432}},
		{policy.NetRule{Host: "a.com", Scheme: "wss", Port: 8443, Allow: true}, []uint16{8443}},
		{policy.NetRule{Host: "a.com", Scheme: "ssh", Allow: true}, nil},
		{policy.NetRule{Host: "a.com", Scheme: "http", PathPrefix: "/x", Allow: true}, []uint16{80}},
		{policy.NetRule{Host: "a.com", Port: 53, Protocol: "udp", Allow: true}, nil},
		{policy.NetRule{Host: "a.com", Port: 53, Protocol: "udp"}, nil},
		{policy.NetRule{Host: "localhost", Port: 80, Listen: true, Allow: true}, nil},
		{policytest.Host("10.0.0.0/8", true), nil},
		{policytest.Host("10.0.0.0/8", false), nil},
		{policy.NetRule{Host: "localhost", Port: 8080, Allow: true}, nil},
		{policy.NetRule{Host: "10.0.0.0/8", Scheme: "https", Allow: true}, []uint16{443}},
		{policy.NetRule{Host: "10.0.0.1", Methods: []string{"GET"}, Port: 8000, Allow: true}, []uint16{8000}},
	} {
		if got := policytest.Compile(t, policy.SourceLayer{TLSIntercept: true, Net: []policy.NetRule{x.rule}}).AskedPorts(); !slices.Equal(got, x.want) {
			t.Errorf("%+v: %v, want %v", x.rule, got, x.want)
		}
	}
}

func TestIntercepts(t *testing.T) {
	rule := func(scheme, path string) policy.NetRule {
		return policy.NetRule{Host: "a.com", Scheme: scheme, PathPrefix: path, Allow: true}
	}
	for _, x := range []struct {
		may  bool
		rule policy.NetRule
		want bool
	}{
		{true, rule("https", "/x"), true},
		{true, rule("", "/x"), true},
		{true, rule("http", "/x"), false},
		{true, rule("https", ""), false},
		{true, rule("wss", ""), true},
		{false, rule("wss", ""), false},
		{false, rule("http", "/x"), false},
	} {
		if got := policytest.Compile(t, policy.SourceLayer{TLSIntercept: x.may, Net: []policy.NetRule{x.rule}}).Intercepts(); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
