package manifest

import (
	"cmp"
	"maps"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
)

// enters compares which commands enter the policy of which tool.
func (v *verifier) enters() error {
	for _, tool := range v.names() {
		old, new := v.old.enters(tool), v.new.enters(tool)
		commands := words{}
		commands.add(slices.Sorted(maps.Keys(old))...)
		commands.add(slices.Sorted(maps.Keys(new))...)
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
