package manifest

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// hooks compares the hooks of one kind: one may run for fewer tools than before. What runs before a call also decides about it: before another
// one, which may change the arguments, or with more time, a hook may let more calls pass.
func (v *verifier) hooks(kind string, old, new []*toolset.Hook) {
	for i, h := range old {
		reported := map[string]bool{} // the first tool stands for all
		add := func(code, resource string, x example, before, after string) {
			if !reported[resource] {
				reported[resource] = true
				v.add(Widening{Code: code, Tool: x.shown, Resource: resource, Before: before, After: after})
			}
		}
		for _, x := range v.examples {
			if !h.For(x.tool, "") {
				continue
			}
			n := position(new, h, x.tool)
			switch {
			case n < 0:
				add("hook.removed", "hooks."+kind, x, hookID(h), "none")
				continue
			case kind == "after_tool_call":
				continue
			case new[n].Timeout > h.Timeout:
				add("gate.weakened", "hooks."+kind+".timeout", x, h.Timeout.String(), new[n].Timeout.String())
			}
			for _, earlier := range old[:i] {
				if earlier.For(x.tool, "") && hookID(earlier) != hookID(h) && position(new, earlier, x.tool) > n {
					add("gate.weakened", "hooks."+kind+".order", x, hookID(earlier)+" before "+hookID(h), hookID(h)+" before "+hookID(earlier))
				}
			}
		}
	}
}

func hookID(h *toolset.Hook) string { return text([]any{h.Command, h.URL}) }

// position returns where a list has a hook that runs for a tool; -1 for none.
func position(list []*toolset.Hook, h *toolset.Hook, tool string) int {
	return slices.IndexFunc(list, func(n *toolset.Hook) bool { return hookID(n) == hookID(h) && n.For(tool, "") })
}
