package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// otherTool stands for the tools that no manifest names.
const otherTool = "toolguard_example"

// risks are in their order.
var risks = []string{"low", "medium", "high", "critical"}

const high = 2

// tools compares what isn't access of each tool.
func (v *verifier) tools() {
	for _, name := range append(v.names()[1:], otherTool) {
		if v.added(name) {
			v.addTool(name)
			continue
		}
		old, new := v.old.set.Settings(name, ""), v.new.set.Settings(name, "")
		add := func(code, resource, key string, before, after any) {
			tool := name
			if name == otherTool {
				tool = ""
			}
			w := Widening{Code: code, Tool: tool, Resource: resource, Before: fmt.Sprint(before), After: fmt.Sprint(after)}
			if r, ok := new.Rules[key]; ok {
				w.Rule = &Rule{r.ID, r.Authority().String(), r.At.File, r.At.Line}
			}
			v.add(w)
		}
		if a, b := slices.Index(risks, old.Risk), slices.Index(risks, new.Risk); b > a && b >= high {
			add("tool.risk.increased", "risk", "risk", old.Risk, new.Risk)
		}
		constraints(constraintsOf(old), constraintsOf(new), add)
		if new.Exclude && !old.Exclude {
			add("gate.weakened", "gate.exclude", "exclude", false, true)
		}
		if old.Kind != "" && new.Kind != old.Kind { // another kind needs other capabilities
			add("gate.weakened", "kind", "kind", old.Kind, cmp.Or(new.Kind, "unknown"))
		}
		for _, p := range sorted(old.Parameters) {
			if a, b := old.Parameters[p], cmp.Or(new.Parameters[p], "text"); a != "text" && b == "text" {
				add("gate.weakened", "parameters."+p, "parameters."+p, a, b)
			}
		}
		if old, new := text(old.Command), text(new.Command); new != "null" && old != new {
			add("tool.exec.widened", "command", "command", old, new)
		}
	}
	v.visible()
}

// constraints compares the constraints of a tool.
func constraints(old, new Constraints, add func(code, resource, key string, before, after any)) {
	const invocations, after = "constraints.max_invocations", "constraints.only_after"
	if old.Forbidden && !new.Forbidden {
		add("constraint.removed", "constraints.forbidden", "constraints.forbidden", true, false)
	}
	for _, name := range old.OnlyAfter {
		if !slices.Contains(new.OnlyAfter, name) {
			add("constraint.removed", after, after, name, "none")
		}
	}
	switch a, b := old.MaxInvocations, new.MaxInvocations; {
	case a > 0 && b == 0:
		add("constraint.removed", invocations, invocations, a, "none")
	case a > 0 && b > a:
		add("limit.raised", invocations, invocations, a, b)
	}
}

// addTool reports a tool that is new.
func (v *verifier) addTool(name string) {
	s := v.new.set.Settings(name, "")
	if s.Forbidden {
		return
	}
	code := "tool.added"
	if slices.Index(risks, s.Risk) >= high {
		code = "tool.added.high-risk"
	}
	w := Widening{Code: code, Tool: name, Resource: "tools", Before: "none", After: s.Risk}
	for _, t := range v.new.m.Layer.Tools {
		if r := t.Pattern.Rule; t.Pattern.Text == name && !r.Builtin() {
			w.Rule = &Rule{r.ID, r.Authority().String(), r.At.File, r.At.Line}
		}
	}
	v.add(w)
}

// visible compares which tools callers see.
func (v *verifier) visible() {
	offered := v.offered()
	reported := map[string]bool{}
	for _, c := range v.callers() {
		old, new := visibility.Decide(v.old.set, c, offered).Tools, visibility.Decide(v.new.set, c, offered).Tools
		for i, t := range offered {
			if old[i].Removed == nil || new[i].Removed != nil || reported[t.Name] || v.added(t.Name) {
				continue
			}
			reported[t.Name] = true
			w := Widening{Code: "tool.visible.widened", Tool: t.Name, Resource: "tools", Before: old[i].Removed.Reason, After: "visible"}
			w.Caller = &Caller{Agent: c.Agent, Profile: c.Profile, Provider: c.Provider, Group: c.Group, Depth: c.Depth}
			if *w.Caller == (Caller{}) {
				w.Caller = nil
			}
			v.add(w)
		}
	}
}

// offered returns every tool that a manifest names, one for each pattern, and one that no manifest names.
func (v *verifier) offered() (tools []visibility.Tool) {
	names, layers := words{}, []*toolset.Layer{v.old.m.Layer, v.new.m.Layer}
	names.add(v.names()[1:]...)
	for _, l := range layers {
		for _, t := range l.Tools {
			names.add(t.Pattern.Text)
			names.add(texts(t.Implies)...)
		}
		for _, g := range sorted(l.Groups) {
			names.add(texts(l.Groups[g])...)
		}
		eachStage(l, func(s *toolset.Stage) {
			names.add(texts(slices.Concat(s.Allow, s.AlsoAllow, s.Deny))...)
		})
	}
	names.add(otherTool)
	taken := map[string]bool{}
	for _, n := range names.list {
		n = strings.ReplaceAll(n, "*", "x")
		a, b := "old "+layers[0].Canonical(n), "new "+layers[1].Canonical(n)
		if toolset.ValidName(n) && !taken[a] && !taken[b] { // of two names of a tool a caller sees one
			taken[a], taken[b] = true, true
			tools = append(tools, visibility.Tool{Name: n})
		}
	}
	return tools
}

// callers returns the callers that one of the manifests distinguishes, alone and each agent with the others.
func (v *verifier) callers() (all []visibility.Caller) {
	known, seen := []Caller{}, map[Caller]bool{}
	for _, s := range []*side{v.old, v.new} {
		for _, x := range s.m.Stages {
			known = append(known, x.Caller)
		}
		for _, t := range s.m.Layer.Tools {
			for _, e := range t.Models {
				known = append(known, Caller{Provider: strings.ReplaceAll(e.Text, "*", "x")})
			}
		}
		if sub := s.m.Layer.Subagent; sub != nil {
			known = append(known, Caller{Depth: max(sub.MaxDepth, 1)}, Caller{Depth: max(sub.MaxDepth, 1) + 1})
		}
	}
	known = append(known, Caller{Provider: "toolguard-example"}, Caller{Depth: 1}, Caller{Depth: 2})
	add := func(c Caller) {
		if seen[c] {
			return
		}
		seen[c] = true
		provider, model, _ := strings.Cut(c.Provider, "/")
		for _, owner := range []bool{false, true} {
			for _, sandboxed := range []bool{true, false} {
				all = append(all, visibility.Caller{
					Agent: c.Agent, Profile: c.Profile, Provider: provider, Model: model, Group: c.Group, Depth: c.Depth, Owner: owner, Sandboxed: sandboxed,
				})
			}
		}
	}
	for _, c := range known {
		add(c)
	}
	for _, c := range known {
		for _, agent := range known {
			if agent.Agent != "" && c.Agent == "" {
				c.Agent = agent.Agent
				add(c)
				c.Agent = ""
			}
		}
	}
	return all
}

// enters compares which commands enter the policy of which tool.
func (v *verifier) enters() error {
	for _, tool := range v.names() {
		if v.added(tool) {
			continue
		}
		old, new := v.old.enters(tool), v.new.enters(tool)
		commands := words{}
		commands.add(sorted(old)...)
		commands.add(sorted(new)...)
		for _, c := range commands.list {
			if old[c] == new[c] {
				continue
			}
			wider, err := v.wider(cmp.Or(old[c], tool), cmp.Or(new[c], tool))
			if err != nil {
				return err
			}
			if wider {
				v.add(Widening{Code: "tool.enter.widened", Tool: tool, Resource: policy.Commands.String() + "." + c, Before: cmp.Or(old[c], "none"), After: cmp.Or(new[c], "none")})
			}
		}
	}
	return nil
}

// enters returns the transitions of a tool: the tool by the command.
func (s *side) enters(tool string) map[string]string {
	list := s.m.Enter
	if t := s.tool(tool); t != nil {
		list = t.Enter
	}
	out := map[string]string{}
	for _, e := range list {
		out[e.Command] = e.Tool
	}
	return out
}

// wider reports whether a tool's new policy allows what another's old one doesn't.
func (v *verifier) wider(from, to string) (bool, error) {
	for _, at := range layouts {
		old, err := v.old.compile(from, Caller{}, at)
		if err != nil {
			return false, err
		}
		new, err := v.new.compile(to, Caller{}, at)
		if err != nil {
			return false, err
		}
		x := &comparison{verifier: &verifier{old: v.old, new: v.new, seen: map[string]bool{}}, tool: to, at: at, old: old, new: new}
		if err := x.files(); err != nil {
			return false, err
		}
		for _, r := range []policy.Resource{policy.Net, policy.Env, policy.Commands} {
			x.resource(r)
		}
		if x.rest(); len(x.out) > 0 {
			return true, nil
		}
	}
	return false, nil
}
