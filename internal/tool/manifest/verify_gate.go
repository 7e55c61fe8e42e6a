package manifest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// kindNeeds are what the gate asks about a call of a tool of a kind: the capability for its paths, where "any" is that one of them is enough;
// "odd" texts, "absolute" paths, "env" and "argv" in arguments without a role.
var kindNeeds = map[string][]string{
	"":        {"any", "absolute", "env", "argv"},
	"read":    {"any", "read"},
	"list":    {"any", "read"},
	"create":  {"any", "create", "existing", "odd"},
	"modify":  {"any", "existing", "update", "odd"},
	"delete":  {"any", "delete", "odd", "absolute"},
	"move":    {"any", "delete", "create", "existing", "odd"},
	"execute": {"any", "execute", "odd", "env", "argv", "command"},
	"fetch":   {"any"},
}

// roleNeeds are what the gate does with an argument of a role. "" is an argument without one.
var roleNeeds = map[string][]string{
	"":        {"other"},
	"path":    {"other", "path"},
	"patch":   {"other", "path", "patch"},
	"url":     {"other", "url"},
	"command": {"other", "command"},
	"argv":    {"other", "argv"},
	"cwd":     {"cwd"},
	"text":    {},
}

// lacks reports whether something that was needed isn't any more.
func lacks(new, old []string) bool {
	return slices.ContainsFunc(old, func(need string) bool { return !slices.Contains(new, need) })
}

// judged compares what the gate asks about the arguments of a tool.
func (v *verifier) judged(old, new *toolset.Settings, add func(code, resource, key string, before, after any)) {
	if old.Exclude {
		return
	}
	if new.Exclude {
		add("gate.weakened", "gate.exclude", "exclude", false, true)
		return
	}
	strictOld, strictNew := v.old.set.Gate().Strict, v.new.set.Gate().Strict
	if new.Kind == "" && strictNew {
		return // every call is denied
	}
	if old.Kind != new.Kind && (lacks(kindNeeds[new.Kind], kindNeeds[old.Kind]) || old.Kind == "" && strictOld) {
		add("gate.weakened", "kind", "kind", cmp.Or(old.Kind, "unknown"), cmp.Or(new.Kind, "unknown"))
	}
	names := words{}
	names.add(slices.Sorted(maps.Keys(old.Parameters))...)
	names.add(slices.Sorted(maps.Keys(new.Parameters))...)
	for _, p := range names.list {
		if a, b := old.Parameters[p], new.Parameters[p]; a != b && lacks(roleNeeds[b], roleNeeds[a]) && !(a == "argv" && b == "") {
			add("gate.weakened", "parameters."+p, "parameters."+p, cmp.Or(a, "none"), cmp.Or(b, "none"))
		}
	}
}

// answers are in their order, from the strict to the loose.
var answers = []string{toolset.Deny, toolset.Ask, toolset.Run}

// call is what the gate answers about a call: allow, where runs is that it runs a command and listed that a rule names it; or, if it's unclear,
// ask.
type call struct{ runs, listed, unclear bool }

var calls = []call{{}, {unclear: true}, {runs: true}, {runs: true, listed: true}, {runs: true, unclear: true}}

// approvals compares when a person is asked, for each agent and tool.
func (v *verifier) approvals() {
	agents := words{}
	agents.add("")
	for _, s := range []*side{v.old, v.new} {
		agents.add(slices.Sorted(maps.Keys(s.m.Layer.Approvals.Agents))...)
	}
	for _, agent := range agents.list {
		for _, x := range v.examples {
			if !v.added[x.tool] {
				v.approval(agent, x)
			}
		}
	}
}

func (v *verifier) approval(agent string, x example) {
	old, new := v.old.set.Settings(x.tool, ""), v.new.set.Settings(x.tool, "")
	judged := v.judges(v.old, old) && v.judges(v.new, new) // where only one gate is, that's a widening of its own
	for _, c := range calls {
		if !c.runs && old.Kind == "execute" && new.Kind == "execute" || c.unclear && !judged {
			continue
		}
		a, fallbackA := v.decide(v.old, agent, old, c)
		b, fallbackB := v.decide(v.new, agent, new, c)
		if a == b {
			a, b = fallbackA, fallbackB
		}
		if slices.Index(answers, b) <= slices.Index(answers, a) {
			continue
		}
		w := Widening{Code: "approval.weakened", Tool: x.shown, Resource: "approvals", Before: a, After: b}
		if agent != "" {
			w.Caller = &Caller{Agent: agent}
		}
		v.once(w)
	}
}

// judges reports whether the gate judges the arguments of a tool's calls.
func (v *verifier) judges(s *side, t *toolset.Settings) bool {
	return s.set.Gate().Enabled && !t.Exclude
}

// decide answers whether a call runs, and what happens if a person is asked who doesn't answer, as the gate does.
func (v *verifier) decide(s *side, agent string, t *toolset.Settings, c call) (answer, fallback string) {
	a := s.set.Approvals(agent)
	switch answer = toolset.Run; {
	case c.unclear && v.new.set.Gate().Strict: // of both: a gate that isn't strict any more is a widening of its own
		return toolset.Deny, ""
	case c.unclear:
		answer = toolset.Ask
	}
	if own := t.Ask; (a.Given || own != "") && (c.runs || own != "" && own != "off") {
		answer, _ = a.Decide(t, c.runs, c.listed)
	}
	if answer != toolset.Ask {
		return answer, ""
	}
	if !a.Given {
		return toolset.Deny, "" // nobody is asked
	}
	fallback, _ = a.Fallback(c.listed)
	return answer, fallback
}
