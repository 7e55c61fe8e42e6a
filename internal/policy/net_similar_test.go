package policy_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// genNetRule returns a rule about one of few hosts.
func genNetRule(t *rapid.T, what string, hosts []string, intercept bool) policy.NetRule {
	r := policy.NetRule{
		Host: rapid.SampledFrom(hosts).Draw(t, what+" host"), Scheme: rapid.SampledFrom([]string{"", "", "http", "https", "ws", "wss", "ssh"}).Draw(t, what+" scheme"),
		Port: rapid.SampledFrom([]int{0, 0, 80, 443, 22}).Draw(t, what+" port"), Allow: rapid.Bool().Draw(t, what+" allow"),
	}
	if r.Scheme == "http" || intercept && r.Scheme != "ssh" {
		r.PathPrefix = rapid.SampledFrom([]string{"", "", "/a"}).Draw(t, what+" path")
	}
	return r
}

// The verdict on one host doesn't depend on rules about others.
func TestRulesAboutOtherHosts(t *testing.T) {
	about := []string{"api.a.com", "*.a.com"}
	others := []string{"b.com", "*.b.com", "10.0.0.0/8", "a.com", "x.api.a.com"}
	checks(t, "2000")
	rapid.Check(t, func(t *rapid.T) {
		intercept := rapid.Bool().Draw(t, "intercept")
		var own, all []policy.NetRule
		for i := range rapid.IntRange(0, 6).Draw(t, "rules") {
			if what := fmt.Sprintf("rule %d", i); rapid.Bool().Draw(t, what+" is about it") {
				own = append(own, genNetRule(t, what, about, intercept))
				all = append(all, own[len(own)-1])
			} else {
				all = append(all, genNetRule(t, what, others, intercept))
			}
		}
		defaultAction := [policy.NumResources]policy.DefaultAction{policy.Net: rapid.SampledFrom([]policy.DefaultAction{policy.Deny, policy.Allow}).Draw(t, "default")}
		alone := policytest.Compile(t, policy.SourceLayer{Defaults: defaultAction, Net: own, TLSIntercept: intercept})
		c := policytest.Compile(t, policy.SourceLayer{Defaults: defaultAction, Net: all, TLSIntercept: intercept})
		for _, scheme := range []string{"http", "https", "ws", "wss", "ssh", "git"} {
			for _, port := range []uint16{80, 443, 22, 9418} {
				target := netname.Target{Scheme: scheme, Protocol: "tcp", Host: "api.a.com", Port: port, Path: [][]string{nil, {"a"}}[port%2]}
				if got, want := c.CheckNet(&target), alone.CheckNet(&target); got.Allow != want.Allow || got.Reason != want.Reason {
					t.Fatalf("%s: %+v with others, %+v alone\n%+v", &target, got, want, all)
				}
				explainAgrees(t, c, &target)
			}
		}
	})
}

// explainAgrees compares the explanation with the decision.
func explainAgrees(t *rapid.T, c *policy.Compiled, target *netname.Target) {
	e := explain.Explain(c, policytest.Machine(), explain.Question{Resource: policy.Net, Target: target.String()})
	for _, l := range e.Layers {
		won := slices.IndexFunc(l.Candidates, func(x explain.Candidate) bool { return x.Won })
		if l.Allow != (e.Answer.Decision == "allow") || (won >= 0) != (e.Answer.Rule != nil) || won >= 0 && l.Candidates[won].Rule != e.Answer.Rule {
			t.Fatalf("%s: the explanation is %+v", target, e)
		}
	}
	if len(e.Layers) == 0 {
		t.Fatalf("%s: no layer: %+v", target, e.Answer)
	}
}

// Targets that can't be distinguished are decided by a rule that names either scheme, before one that names none.
func TestUnreadTLS(t *testing.T) {
	deny, allow := policytest.Host("api.github.com", false), policy.NetRule{Host: "api.github.com", Scheme: "https", Port: 443, Allow: true}
	other := policy.NetRule{Host: "b.com", PathPrefix: "/x", Scheme: "https", Allow: true}
	for _, x := range []struct {
		rules     []policy.NetRule
		intercept bool
		https     policy.Reason
		wss       policy.Reason
		why       string // of the first rule, for https
	}{
		{[]policy.NetRule{deny, allow}, false, policy.Allowed, policy.Allowed, "it names fewer parts than net.2"},
		{[]policy.NetRule{allow, deny}, false, policy.Allowed, policy.Allowed, "the most specific match"},
		{[]policy.NetRule{deny, allow}, true, policy.Allowed, policy.Allowed, "it names fewer parts than net.2"},
		{[]policy.NetRule{deny, allow, other}, true, policy.Allowed, policy.Allowed, "it names fewer parts than net.2"},
		{[]policy.NetRule{deny, allow, {Host: "api.github.com", Scheme: "wss"}}, true, policy.Allowed, policy.RuleDenies, "it names fewer parts than net.2"},
		{[]policy.NetRule{policytest.Host("api.github.com", true), {Host: "api.github.com", Scheme: "wss"}}, false, policy.RuleDenies, policy.RuleDenies, "net.2 is for wss, which looks the same as the target, and comes first"},
		{[]policy.NetRule{{Host: "api.github.com", Scheme: "wss"}, allow}, false, policy.Allowed, policy.Allowed, "the host matches, but not the scheme"},
	} {
		c := policytest.Compile(t, policy.SourceLayer{Net: x.rules, TLSIntercept: x.intercept})
		for scheme, want := range map[string]policy.Reason{"https": x.https, "wss": x.wss} {
			e := explain.Explain(c, policytest.Machine(), explain.Question{Resource: policy.Net, Target: scheme + "://api.github.com/"})
			if e.Answer.Reason != want || scheme == "https" && e.Layers[0].Candidates[0].Why != x.why {
				t.Errorf("%+v, %s: %s, want %s; %+v", x.rules, scheme, e.Answer.Reason, want, e.Layers[0].Candidates)
			}
		}
	}
}
