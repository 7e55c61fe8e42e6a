package manifest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// settings compares what isn't about one tool.
func (v *verifier) settings() {
	if v.old.m.Version != v.new.m.Version {
		v.add(Widening{Code: "manifest.version.changed", Resource: "manifest", Before: fmt.Sprint(v.old.m.Version), After: fmt.Sprint(v.new.m.Version)})
	}
	v.limits()
	v.restrictions()
	v.gate()
	v.approvals()
	v.hooks("before_tool_call", v.old.m.Layer.Before, v.new.m.Layer.Before)
	v.hooks("after_tool_call", v.old.m.Layer.After, v.new.m.Layer.After)
}

// limits compares the limits of each caller, and the depth of sub-agents.
func (v *verifier) limits() {
	for _, s := range []*side{v.old, v.new} {
		for _, stage := range s.m.Stages {
			a, b := v.old.stage(stage.Caller).Limits, v.new.stage(stage.Caller).Limits
			for _, name := range slices.Sorted(maps.Keys(a)) {
				if a[name] == 0 || b[name] != 0 && b[name] <= a[name] {
					continue
				}
				w := Widening{Code: "limit.raised", Resource: "limits." + name, Before: fmt.Sprint(a[name]), After: fmt.Sprint(b[name])}
				if b[name] == 0 {
					w.After = "none"
				}
				if k := text(w); !v.seen["limits "+k] { // of all callers, it's reported once
					v.seen["limits "+k] = true
					if c := stage.Caller; c != (Caller{}) {
						w.Caller = &c
					}
					v.add(w)
				}
			}
		}
	}
	if a, b := depthOf(v.old.m.Layer), depthOf(v.new.m.Layer); b > a {
		v.add(Widening{Code: "limit.raised", Resource: "max_depth", Before: fmt.Sprint(a), After: fmt.Sprint(b)})
	}
}

// depthOf returns how deep sub-agents may be.
func depthOf(l *toolset.Layer) int {
	if l.Subagent == nil {
		return 1
	}
	return max(l.Subagent.MaxDepth, 1)
}

// restrictions compares protect and secrets of every authority and tool: whether they're enforced at all, and their files.
func (v *verifier) restrictions() {
	compare := func(code, resource string, old, new guard, a, b *side, tool string) {
		if x, y := slices.Index(modes, old.Mode), slices.Index(modes, new.Mode); x > y {
			v.add(Widening{Code: code, Tool: tool, Resource: resource, Before: old.Mode, After: new.Mode})
			return
		}
		if old.Mode == "off" {
			return
		}
		has := map[string]bool{}
		for _, r := range b.flat(new.Files) {
			has[r.Path+r.Match] = !r.Read || resource != "secrets"
		}
		for _, r := range a.flat(old.Files) {
			if (!r.Read || resource != "secrets") && !has[r.Path+r.Match] {
				v.add(Widening{Code: code, Tool: tool, Resource: resource, Before: r.Path + r.Match, After: "none"})
				return // one of them stands for all
			}
		}
	}
	for _, tool := range v.names() {
		if old, new := v.old.access(tool), v.new.access(tool); tool == "" || old != v.old.m.Access || new != v.new.m.Access {
			before := len(v.out)
			compare("protect.removed", "protect", old.Protect, new.Protect, v.old, v.new, tool)
			compare("secrets.removed", "secrets", old.Secrets, new.Secrets, v.old, v.new, tool)
			if tool == "" && len(v.out) > before { // that of all tools is enough
				return
			}
		}
	}
}

// flat returns rules with those of sets.
func (s *side) flat(list []rule) (out []rule) {
	for _, r := range list {
		if r.Set != "" {
			out = append(out, s.m.Sets[r.Set]...)
		} else {
			out = append(out, r)
		}
	}
	return out
}

func (v *verifier) gate() {
	old, new := v.old.set.Gate(), v.new.set.Gate()
	add := func(key string, before, after any) {
		w := Widening{Code: "gate.weakened", Resource: "gate." + key, Before: fmt.Sprint(before), After: fmt.Sprint(after)}
		if r, ok := new.Rules[key]; ok {
			w.Rule = &Rule{r.ID, r.Authority().String(), r.At.File, r.At.Line}
		}
		v.add(w)
	}
	if old.Enabled && !new.Enabled {
		add("enabled", true, false)
	}
	if old.Strict && !new.Strict {
		add("strict", true, false)
	}
	if new.AllowParentAccess && !old.AllowParentAccess {
		add("allow_parent_access", false, true)
	}
	if old.Shell != new.Shell && new.Shell != "auto" { // auto takes the strictest answer
		add("shell", old.Shell, new.Shell)
	}
}
