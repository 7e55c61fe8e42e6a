package policy

import (
	"fmt"
	"slices"
	"testing"
)

func TestWays(t *testing.T) {
	for _, x := range []struct {
		name   string
		layers []SourceLayer
		host   string
		want   []string // "scheme port", in order; a "!" at its end: not direct
		why    Reason
	}{
		{"a host alone", []SourceLayer{{Net: []NetRule{host("a.com", true)}}}, "a.com", []string{"git 9418", "http 80!", "https 443!", "ssh 22", "ws 80!", "wss 443!"}, Allowed},
		{"nothing", []SourceLayer{{Net: []NetRule{host("a.com", true)}}}, "b.com", nil, HostNotListed},
		{"not the apex", []SourceLayer{{Net: []NetRule{host("*.a.com", true)}}}, "a.com", nil, HostNotListed},
		{"denied", []SourceLayer{{Net: []NetRule{host("a.com", false), host("*.com", true)}}}, "a.com", nil, RuleDenies},
		{"a scheme", []SourceLayer{{Net: []NetRule{{Host: "a.com", Scheme: "http", Port: 8080, Allow: true}}}}, "a.com", []string{"http 8080!"}, HostNotListed},
		{"ssh", []SourceLayer{{Net: []NetRule{{Host: "*.a.com", Scheme: "ssh", Allow: true}}}}, "x.a.com", []string{"ssh 22"}, HostNotListed},
		{"udp", []SourceLayer{{Net: []NetRule{{Host: "a.com", Protocol: "udp", Port: 443, Allow: true}}}}, "a.com", []string{" 443"}, HostNotListed},
		{"https", []SourceLayer{{Net: []NetRule{{Host: "a.com", Scheme: "https", Allow: true}}}}, "a.com", []string{"https 443!", "wss 443!"}, Allowed},
		{"https, and wss denied", []SourceLayer{{Net: []NetRule{host("a.com", true), {Host: "a.com", Scheme: "wss"}}}}, "a.com", []string{"git 9418", "http 80!", "ssh 22", "ws 80!"}, RuleDenies},
		{"a path", []SourceLayer{{Net: []NetRule{{Host: "a.com", Scheme: "http", PathPrefix: "/x", Allow: true}}}}, "a.com", []string{"http 80!"}, HostNotListed},
		{"both layers", []SourceLayer{
			{Authority: Host, Net: []NetRule{{Host: "*.com", Scheme: "http", PathPrefix: "/x", Allow: true}}},
			{Authority: Session, Net: []NetRule{{Host: "a.com", Scheme: "http", PathPrefix: "/x/y", Allow: true}}},
		}, "a.com", []string{"http 80!"}, HostNotListed},
		{"one layer of two", []SourceLayer{{Authority: Host, Net: []NetRule{host("*.com", true)}}, {Authority: Session, Net: []NetRule{host("b.com", true)}}}, "a.com", nil, HostNotListed},
		{"listening is no way out", []SourceLayer{{Net: []NetRule{{Host: "localhost", Port: 80, Listen: true, Allow: true}}}}, "localhost", nil, HostNotListed},
		{
			"a raw port",
			[]SourceLayer{{Net: []NetRule{{Host: "a.com", Port: 5432, Allow: true}, {Host: "a.com", Scheme: "http", Port: 5432}}}},
			"a.com",
			[]string{"https 5432!", "ws 5432!", "wss 5432!"},
			HostNotListed,
		},
	} {
		ways, why := compile(t, x.layers...).Ways(x.host)
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

// What wildcards leave open of a name counts for each authority by itself.
func TestOpen(t *testing.T) {
	wild := SourceLayer{Authority: Host, Net: []NetRule{host("*.a.com", true)}}
	all := SourceLayer{Authority: Session, Defaults: [NumResources]Stance{Net: Allow}}
	for _, x := range []struct {
		name   string
		layers []SourceLayer
		want   string
		by     Authority
	}{
		{"one", []SourceLayer{wild}, "x.y", Host},
		{"the longest", []SourceLayer{{Authority: Host, Net: []NetRule{host("*.a.com", true), host("*.y.a.com", true)}}}, "x", Host},
		{"the host too", []SourceLayer{{Authority: Host, Net: []NetRule{host("*.a.com", true), host("x.y.a.com", true)}}}, "", 0},
		{"another allows all", []SourceLayer{wild, all}, "x.y", Host},
		{"another names the host", []SourceLayer{wild, {Authority: Session, Net: []NetRule{host("x.y.a.com", true)}}}, "x.y", Host},
		{"another leaves more open", []SourceLayer{wild, {Authority: Session, Net: []NetRule{host("*.com", true)}}}, "x.y.a", Session},
		{"all is allowed", []SourceLayer{all}, "", 0},
	} {
		c := compile(t, x.layers...)
		ways, _ := c.Ways("x.y.a.com")
		if open, v := c.Open("x.y.a.com", ways); open != x.want || open != "" && (c.Layers[v.Layer].Authority != x.by || c.Rules[v.Rule].Net.Suffix == "") {
			t.Errorf("%s: %q is open by %+v, want %q of %s", x.name, open, v, x.want, x.by)
		}
	}
}

func TestAskedPorts(t *testing.T) {
	for _, x := range []struct {
		rule NetRule
		want []uint16
	}{
		{host("a.com", true), []uint16{80, 443}},
		{host("a.com", false), []uint16{22, 80, 443, 9418}},
		{NetRule{Host: "a.com", Port: 443, Allow: true}, []uint16{443}},
		{NetRule{Host: "a.com", Port: 5432, Allow: true}, nil},
		{NetRule{Host: "a.com", Port: 5432}, []uint16{5432}},
		{NetRule{Host: "a.com", Scheme: "wss", Port: 8443, Allow: true}, []uint16{8443}},
		{NetRule{Host: "a.com", Scheme: "ssh", Allow: true}, nil},
		{NetRule{Host: "a.com", Scheme: "http", PathPrefix: "/x", Allow: true}, []uint16{80}},
		{NetRule{Host: "a.com", Port: 53, Protocol: "udp", Allow: true}, nil},
		{NetRule{Host: "a.com", Port: 53, Protocol: "udp"}, nil},
		{NetRule{Host: "localhost", Port: 80, Listen: true, Allow: true}, nil},
		{host("10.0.0.0/8", true), nil},
		{host("10.0.0.0/8", false), nil},
		{NetRule{Host: "localhost", Port: 8080, Allow: true}, nil},
		{NetRule{Host: "10.0.0.0/8", Scheme: "https", Allow: true}, []uint16{443}},
		{NetRule{Host: "10.0.0.1", Methods: []string{"GET"}, Port: 8000, Allow: true}, []uint16{8000}},
	} {
		if got := compile(t, SourceLayer{TLSIntercept: true, Net: []NetRule{x.rule}}).AskedPorts(); !slices.Equal(got, x.want) {
			t.Errorf("%+v: %v, want %v", x.rule, got, x.want)
		}
	}
}

func TestIntercepts(t *testing.T) {
	rule := func(scheme, path string) NetRule {
		return NetRule{Host: "a.com", Scheme: scheme, PathPrefix: path, Allow: true}
	}
	for _, x := range []struct {
		may  bool
		rule NetRule
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
		if got := compile(t, SourceLayer{TLSIntercept: x.may, Net: []NetRule{x.rule}}).Intercepts(); got != x.want {
			t.Errorf("%+v: %v", x, got)
		}
	}
}
