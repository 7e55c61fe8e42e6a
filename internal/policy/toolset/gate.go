package toolset

import (
	"cmp"
	"maps"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// Gate returns the settings of the gate.
func (s *Set) Gate() *Gate {
	g := &Gate{Rules: map[string]Rule{}}
	parents := 0
	for _, l := range s.Layers {
		t := &l.Gate
		on := t.Enabled == nil || *t.Enabled
		if l.Author == policy.Host && on { // whatever its files are about, they are enforced on calls, too
			g.Host = true
		}
		if _, set := g.Rules["enabled"]; t.Enabled != nil && (on || !set) {
			g.Enabled, g.Rules["enabled"] = on, t.Keys["enabled"]
		}
		if t.Strict != nil && *t.Strict {
			g.Strict, g.Rules["strict"] = true, t.Keys["strict"]
		}
		if t.AllowParentAccess != nil && *t.AllowParentAccess {
			parents++
			g.Rules["allow_parent_access"] = t.Keys["allow_parent_access"]
		}
		switch {
		case t.Shell == "":
		case g.Shell == "" || g.Shell == t.Shell:
			g.Shell, g.Rules["shell"] = t.Shell, t.Keys["shell"]
		default:
			g.Shell, g.Rules["shell"] = "auto", t.Keys["shell"]
		}
	}
	if _, set := g.Rules["enabled"]; !set || g.Host {
		g.Enabled = true
	}
	if g.AllowParentAccess = parents > 0 && parents == len(s.Layers); !g.AllowParentAccess {
		delete(g.Rules, "allow_parent_access")
	}
	g.Shell = cmp.Or(g.Shell, "auto")
	return g
}

// Hooks returns the hooks that run before and after calls, those of the host first.
func (s *Set) Hooks() (before, after []*Hook) {
	for _, l := range s.Layers {
		before, after = append(before, l.Before...), append(after, l.After...)
	}
	return before, after
}

// For reports whether the hook is for a tool. A server's tool is known by its bare name, too.
func (h *Hook) For(name, bare string) bool {
	return h.Tools == nil || h.Layer.Matcher(h.Tools).Find(h.Layer.Target(name, bare), true) != nil
}

// Approvals returns the settings for one agent; "" for none.
func (s *Set) Approvals(agent string) *Approvals {
	a := &Approvals{Rules: map[string]Rule{}}
	for _, l := range s.Layers {
		t := l.Approvals.of(agent)
		a.authors = append(a.authors, t)
		a.Given = a.Given || t.Keys != nil || len(l.Approvals.Agents) > 0
		a.strictest(&a.Security, "security", securities, t.Security, t)
		a.strictest(&a.Ask, "ask", asks, t.Ask, t)
		a.strictest(&a.AskFallback, "ask_fallback", securities, t.AskFallback, t)
		if t.Timeout > 0 && (a.Timeout == 0 || t.Timeout < a.Timeout) {
			a.Timeout, a.Rules["timeout"] = t.Timeout, t.Keys["timeout"]
		}
	}
	a.Security, a.Ask = cmp.Or(a.Security, "allowlist"), cmp.Or(a.Ask, "on-miss")
	a.AskFallback, a.Timeout = cmp.Or(a.AskFallback, "deny"), cmp.Or(a.Timeout, defaultTimeout)
	if slices.Index(securities, a.AskFallback) < slices.Index(securities, a.Security) {
		a.AskFallback = a.Security // it's never looser
	}
	return a
}

// of is the table with what it says about one agent over it.
func (t *ApprovalTable) of(agent string) *ApprovalTable {
	out := *t
	own := t.Agents[agent]
	if own == nil || agent == "" {
		return &out
	}
	out.Security, out.Ask = cmp.Or(own.Security, t.Security), cmp.Or(own.Ask, t.Ask)
	out.AskFallback, out.Timeout = cmp.Or(own.AskFallback, t.AskFallback), cmp.Or(own.Timeout, t.Timeout)
	out.Keys = maps.Clone(t.Keys)
	if out.Keys == nil {
		out.Keys = map[string]Rule{}
	}
	maps.Copy(out.Keys, own.Keys)
	return &out
}

func (a *Approvals) strictest(into *string, key string, order []string, value string, t *ApprovalTable) {
	if value != "" && slices.Index(order, value) > slices.Index(order, *into) {
		*into, a.Rules[key] = value, t.Keys[key]
	}
}

// The answers of Approvals.Decide, from the loose to the strict.
const (
	Run  = "run"
	Ask  = "ask"
	Deny = "deny"
)

// Decide answers whether a call that the gate allows, or about which it asks, runs. runs: the tool runs a command. listed: a rule names
// the command, or a stored grant does. Each author's settings decide, with those of the other one where they say nothing, and
// the strictest answer counts: that can be stricter than what the strictest single values would say.
func (a *Approvals) Decide(t *Settings, runs, listed bool) (answer string, rule Rule) {
	answer = Run
	for i, own := range a.authors {
		security, ask, from := cmp.Or(own.Security, a.Security), "", a.Rules["ask"]
		if i < len(t.asks) {
			ask = t.asks[i]
		}
		switch {
		case ask != "" || !runs || own.Ask == "" && t.Ask != "":
			ask, from = cmp.Or(ask, t.Ask, "off"), t.Rules["ask"]
		case own.Ask != "":
			ask, from = own.Ask, own.Keys["ask"]
		default:
			ask = a.Ask
		}
		if !runs && ask == "off" {
			continue
		}
		got := decide(security, ask, listed)
		if security != "allowlist" || ask == "off" {
			from = cmp.Or(own.Keys["security"], a.Rules["security"], from)
		}
		if got == Deny || got == Ask && answer == Run {
			answer, rule = got, from
		}
	}
	return answer, rule
}

// Fallback answers whether a call runs about which a person was asked who didn't answer in time: the table of Decide, with ask_fallback as
// security, and without a question. It's never looser than security. The rule is the one that denies, if it isn't the default.
func (a *Approvals) Fallback(listed bool) (answer string, rule Rule) {
	if answer = decide(a.AskFallback, "off", listed); answer == Deny {
		rule = a.Rules["ask_fallback"]
		if a.AskFallback == a.Security {
			rule = cmp.Or(a.Rules["security"], rule)
		}
	}
	return answer, rule
}

// decide is the table of approvals.
func decide(security, ask string, listed bool) string {
	switch {
	case security == "deny":
		return Deny
	case ask == "always":
		return Ask
	case security == "full" || listed:
		return Run
	case ask == "off":
		return Deny
	}
	return Ask
}
