package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/schema"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// high is the place of the first risk in toolset.Risks that widens what a tool may do.
const high = 2

// tools compares what isn't access of each tool.
func (v *verifier) tools() {
	gated := v.old.set.Gate().Enabled
	for _, x := range v.examples {
		old, new := v.old.set.Settings(x.tool, ""), v.new.set.Settings(x.tool, "")
		add := func(code, resource, key string, before, after any) {
			w := Widening{Code: code, Tool: x.shown, Resource: resource, Before: fmt.Sprint(before), After: fmt.Sprint(after)}
			if r, ok := new.Rules[key]; ok {
				w.Rule = &Rule{r.ID, r.Authority().String(), r.At.File, r.At.Line}
			}
			v.once(w)
		}
		if v.added[x.tool] {
			if !new.Forbidden {
				v.addTool(x.shown, new)
			}
			continue
		}
		if a, b := slices.Index(toolset.Risks, old.Risk), slices.Index(toolset.Risks, new.Risk); b > a && b >= high {
			add("tool.risk.increased", "risk", "risk", old.Risk, new.Risk)
		}
		v.constraints(old, new, add)
		if gated {
			v.judged(old, new, add)
		}
		local(old, new, add)
	}
	v.visible()
}

// once adds a widening that isn't the same for all tools.
func (v *verifier) once(w Widening) {
	all := w
	all.Tool, all.Caller = "", nil
	if k := "once " + text(all); !v.seen[k] {
		v.seen[k] = w.Tool == "" && w.Caller == nil
		v.add(w)
	}
}

// constraints compares the constraints of a tool.
func (v *verifier) constraints(old, new *toolset.Settings, add func(code, resource, key string, before, after any)) {
	const invocations, after = "constraints.max_invocations", "constraints.only_after"
	if old.Forbidden && !new.Forbidden {
		add("constraint.removed", "constraints.forbidden", "constraints.forbidden", true, false)
	}
	for _, p := range old.OnlyAfter { // another one may take its place that fewer tools meet
		if !slices.ContainsFunc(new.OnlyAfter, func(q toolset.Predecessor) bool { return v.within(&q, &p) }) {
			add("constraint.removed", after, after, p.Text, strings.Join(constraintsOf(new).OnlyAfter, ", "))
		}
	}
	switch a, b := old.MaxInvocations, new.MaxInvocations; {
	case a > 0 && b == 0:
		add("constraint.removed", invocations, invocations, a, "none")
	case a > 0 && b > a:
		add("limit.raised", invocations, invocations, a, b)
	}
}

// within reports whether every tool that meets a also meets b.
func (v *verifier) within(a, b *toolset.Predecessor) bool {
	return !slices.ContainsFunc(v.examples, func(x example) bool { return a.Matches(x.tool, "") && !b.Matches(x.tool, "") })
}

// local compares what makes a local tool.
func local(old, new *toolset.Settings, add func(code, resource, key string, before, after any)) {
	a, b := text(old.Command), text(new.Command)
	if new.Command == nil {
		return
	}
	if a != b {
		add("tool.exec.widened", "command", "command", a, b)
	}
	if old.Command == nil {
		return
	}
	was, now := schemaOf(old), schemaOf(new)
	if was == nil || now == nil || !now.Within(was) {
		add("constraint.removed", "schema", "schema", schemaText(old), schemaText(new))
	}
}

// schemaOf is what the arguments of a local tool must match; nil for a schema that can't be read.
func schemaOf(s *toolset.Settings) *schema.Schema {
	if s.Schema == nil {
		return schema.Default(s.Command)
	}
	out, err := schema.Parse(s.Schema.Text)
	if err != nil {
		return nil
	}
	return out
}

func schemaText(s *toolset.Settings) string {
	if s.Schema == nil {
		return "none"
	}
	return string(s.Schema.Text)
}

// addTool reports a tool that is new.
func (v *verifier) addTool(name string, s *toolset.Settings) {
	code := "tool.added"
	if slices.Index(toolset.Risks, s.Risk) >= high {
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

// hidden returns the tools of the new manifest that the old one shows to nobody and doesn't name, and new local tools.
func (v *verifier) hidden() map[string]bool {
	named := map[string]bool{}
	eachEntry(v.old.m.Layer, func(e toolset.Entry) { named[toolset.Normal(e.Text)] = true })
	out := map[string]bool{}
	for _, x := range v.examples {
		if v.new.tool(x.shown) == nil || named[toolset.Normal(x.shown)] {
			continue
		}
		isLocal := v.old.set.Settings(x.tool, "").Command == nil && v.new.set.Settings(x.tool, "").Command != nil
		if seen := func(c visibility.Caller) bool {
			return visibility.Decide(v.old.set, c, given([]example{x})).Tools[0].Removed == nil
		}; isLocal || !slices.ContainsFunc(v.callers, seen) {
			out[x.tool] = true
		}
	}
	return out
}

// visible compares which tools callers see.
func (v *verifier) visible() {
	reported := map[string]bool{}
	for _, list := range v.offers() {
		tools := given(list)
		for _, c := range v.callers {
			old, new := visibility.Decide(v.old.set, c, tools).Tools, visibility.Decide(v.new.set, c, tools).Tools
			for i, x := range list {
				was := old[i].Removed
				if was == nil || new[i].Removed != nil || reported[x.tool] || v.added[x.tool] || was.Reason == visibility.TooDeep {
					continue // a larger max_depth is a widening of its own
				}
				reported[x.tool] = true
				w := Widening{Code: "tool.visible.widened", Tool: x.shown, Resource: "tools", Before: was.Reason, After: "visible"}
				w.Caller = &Caller{Agent: c.Agent, Profile: c.Profile, Provider: c.Provider, Group: c.Group, Depth: c.Depth}
				if *w.Caller == (Caller{}) {
					w.Caller = nil
				}
				v.once(w)
			}
		}
	}
}
