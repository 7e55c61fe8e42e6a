package toolset

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolguard/toolguard/internal/policy"
)

// randomLayer draws what one author's files say, over the same built-in tables.
func randomLayer(t *rapid.T, author policy.Authority) *Layer {
	l := &Layer{Author: author, Groups: map[string][]Entry{"g": {{Text: "a"}, {Text: "mcp__s__*"}}}}
	l.Tools = append(l.Tools, &Tool{Pattern: Entry{Text: "a"}, Kind: "create", Roles: map[string]Role{"p": {"path", at("builtin:tools")}}, Keys: map[string]Rule{"kind": at("builtin:tools")}})
	for _, pattern := range []string{"group:g", "*", "mcp__*", "a", "mcp__s__b"} {
		if rapid.Bool().Draw(t, "table") {
			l.Tools = append(l.Tools, randomTool(t, pattern))
		}
	}
	slices.SortStableFunc(l.Tools, func(a, b *Tool) int { return Compare(a.Pattern.Text, b.Pattern.Text) })
	l.Gate = GateTable{Roles: randomRoles(t), Keys: map[string]Rule{}}
	l.Gate.Roles["path"] = Role{"path", at("builtin:tools")}
	if rapid.Bool().Draw(t, "text") {
		l.Gate.Roles["path"] = Role{"text", at("p.toml")}
	}
	l.Gate.Enabled, l.Gate.Strict, l.Gate.AllowParentAccess = flag(t, l.Gate.Keys, "enabled"), flag(t, l.Gate.Keys, "strict"), flag(t, l.Gate.Keys, "allow_parent_access")
	l.Gate.Exclude = patterns(t)
	l.Approvals.Keys = map[string]Rule{}
	l.Approvals.Security = word(t, l.Approvals.Keys, "security", securities)
	l.Approvals.Ask = word(t, l.Approvals.Keys, "ask", asks)
	l.Approvals.AskFallback = word(t, l.Approvals.Keys, "ask_fallback", securities)
	if l.Approvals.Timeout = time.Duration(rapid.IntRange(0, 3).Draw(t, "timeout")) * time.Minute; l.Approvals.Timeout > 0 {
		l.Approvals.Keys["timeout"] = at("p.toml")
	}
	return l
}

func randomTool(t *rapid.T, pattern string) *Tool {
	x := &Tool{Pattern: Entry{Text: pattern, Rule: at("p.toml")}, Keys: map[string]Rule{}, Roles: randomRoles(t)}
	x.Source = word(t, x.Keys, "source", []string{"local", "mcp", "builtin"})
	x.Kind = word(t, x.Keys, "kind", []string{"read", "modify", "execute"})
	x.Risk = word(t, x.Keys, "risk", Risks)
	x.Ask = word(t, x.Keys, "ask", asks)
	x.OwnerOnly, x.Forbidden = flag(t, x.Keys, "owner_only"), flag(t, x.Keys, "constraints.forbidden")
	if x.MaxInvocations = rapid.IntRange(0, 3).Draw(t, "max"); x.MaxInvocations > 0 {
		x.Keys["constraints.max_invocations"] = at("p.toml")
	}
	if x.OnlyAfter = patterns(t); x.OnlyAfter != nil {
		x.Keys["constraints.only_after"] = at("p.toml")
	}
	if rapid.Bool().Draw(t, "local") {
		x.Command, x.Keys["command"] = []string{pattern}, at("p.toml")
	}
	return x
}

func at(file string) Rule { return Rule{At: policy.Position{File: file, Line: 1, Col: 1}} }

func word(t *rapid.T, keys map[string]Rule, key string, words []string) string {
	w := rapid.SampledFrom(append([]string{""}, words...)).Draw(t, key)
	if w != "" {
		keys[key] = at("p.toml")
	}
	return w
}

func flag(t *rapid.T, keys map[string]Rule, key string) *bool {
	w := word(t, keys, key, []string{"true", "false"})
	if w == "" {
		return nil
	}
	yes := w == "true"
	return &yes
}

func patterns(t *rapid.T) []Entry {
	return rapid.SampledFrom([][]Entry{nil, {{Text: "a"}}, {{Text: "b"}}, {{Text: "mcp__s__*"}}, {{Text: "*"}}}).Draw(t, "patterns")
}

func randomRoles(t *rapid.T) map[string]Role {
	roles := map[string]Role{}
	for _, name := range []string{"p", "q"} {
		if w := rapid.SampledFrom([]string{"", "", "path", "url", "text"}).Draw(t, name); w != "" {
			roles[name] = Role{w, at("p.toml")}
		}
	}
	return roles
}

// calls are the tools that are asked about.
var calls = [][2]string{{"a", ""}, {"b", ""}, {"mcp__s__a", "a"}, {"mcp__s__b", "b"}}

// What both authors say is never looser than what either says alone. What neither has set isn't compared: it's nobody's.
func TestRestriction(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		layers := []*Layer{randomLayer(t, policy.Host), randomLayer(t, policy.Session)}
		both := &Set{layers}
		for i, l := range layers {
			alone := &Set{[]*Layer{l}}
			for _, name := range calls {
				s, own := both.Settings(name[0], name[1]), alone.Settings(name[0], name[1])
				checkSettings(t, s, own, i == 0)
				for _, call := range []struct{ runs, listed bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
					a, x := both.Approvals(""), alone.Approvals("")
					got, _ := a.Decide(s, call.runs, call.listed)
					want, _ := x.Decide(own, call.runs, call.listed)
					order := []string{Run, Ask, Deny}
					if l.Approvals.Security != "" && l.Approvals.Ask != "" && slices.Index(order, got) < slices.Index(order, want) {
						t.Fatalf("approval of %s, %+v: %s, alone %s", name[0], call, got, want)
					}
				}
			}
			checkGate(t, both.Gate(), alone.Gate())
			checkApprovals(t, both.Approvals(""), &l.Approvals)
		}
	})
}

func checkSettings(t *rapid.T, s, own *Settings, host bool) {
	t.Helper()
	set := func(key string) bool { r, ok := own.Rules[key]; return ok && !r.Builtin() }
	after := map[string]bool{}
	for _, p := range s.OnlyAfter {
		after[p.Text] = true
	}
	for _, p := range own.OnlyAfter {
		if !after[p.Text] {
			t.Fatalf("only_after %s is gone", p.Text)
		}
	}
	for name, role := range own.Parameters {
		if got := s.Parameters[name]; role != "text" && (got == "" || got == "text") {
			t.Fatalf("%s is %s alone, and %q with the other author", name, role, got)
		} else if host && !own.Rules["parameters."+name].Builtin() && role != "text" && got != role {
			t.Fatalf("%s is %s, and %s to the host", name, got, role)
		}
	}
	switch {
	case set("risk") && slices.Index(Risks, s.Risk) < slices.Index(Risks, own.Risk):
		t.Fatalf("risk %s, alone %s", s.Risk, own.Risk)
	case set("ask") && slices.Index(asks, s.Ask) < slices.Index(asks, own.Ask):
		t.Fatalf("ask %s, alone %s", s.Ask, own.Ask)
	case own.OwnerOnly && !s.OwnerOnly, own.Forbidden && !s.Forbidden, s.Exclude && !own.Exclude:
		t.Fatalf("%+v, alone %+v", s, own)
	case own.MaxInvocations > 0 && (s.MaxInvocations == 0 || s.MaxInvocations > own.MaxInvocations):
		t.Fatalf("max_invocations %d, alone %d", s.MaxInvocations, own.MaxInvocations)
	case host && (set("kind") && s.Kind != own.Kind || set("source") && s.Source != own.Source || set("command") && !slices.Equal(s.Command, own.Command)):
		t.Fatalf("%+v, to the host %+v", s, own)
	}
}

func checkGate(t *rapid.T, g, own *Gate) {
	t.Helper()
	_, set := own.Rules["enabled"]
	if own.Strict && !g.Strict || g.AllowParentAccess && !own.AllowParentAccess || own.Enabled && set && !g.Enabled || own.Host && !(g.Host && g.Enabled) {
		t.Fatalf("%+v, alone %+v", g, own)
	}
}

func checkApprovals(t *rapid.T, a *Approvals, own *ApprovalTable) {
	t.Helper()
	if slices.Index(securities, a.Security) < slices.Index(securities, own.Security) || slices.Index(asks, a.Ask) < slices.Index(asks, own.Ask) ||
		slices.Index(securities, a.AskFallback) < slices.Index(securities, own.AskFallback) || own.Timeout > 0 && a.Timeout > own.Timeout ||
		slices.Index(securities, a.AskFallback) < slices.Index(securities, a.Security) {
		t.Fatalf("%+v, alone %+v", a, own)
	}
	for _, listed := range []bool{true, false} {
		got, _ := a.Fallback(listed)
		if got == Ask || own.AskFallback != "" && got == Run && decide(own.AskFallback, "off", listed) == Deny || own.Security != "" && got == Run && decide(own.Security, "off", listed) == Deny {
			t.Fatalf("without an answer %s, listed %t: %+v, alone %+v", got, listed, a, own)
		}
	}
}

// A table that only matches the bare name of a server's tool, which the server has chosen, never loosens anything.
func TestBareNamesRestrict(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := &Set{[]*Layer{randomLayer(t, policy.Host), randomLayer(t, policy.Session)}}
		for _, name := range calls[2:] {
			s, full := set.Settings(name[0], name[1]), set.Settings(name[0], "")
			checkSettings(t, s, full, false)
			if s.Kind != full.Kind || s.Exclude != full.Exclude || !maps.Equal(s.Parameters, full.Parameters) || !slices.Equal(s.Command, full.Command) ||
				slices.Index(Risks, s.Risk) < slices.Index(Risks, full.Risk) {
				t.Fatalf("%+v, without the bare name %+v", s, full)
			}
		}
	})
}
