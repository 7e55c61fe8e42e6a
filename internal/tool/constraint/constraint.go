package constraint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Denial is why a call may not run.
type Denial struct {
	Rule toolset.Rule
	Text string // for the model: what is the rule, and what would meet it
}

// Reason is the reason of each denial, as events and answers have it.
const Reason = "constraint"

// Check returns why a tool may not be called after a history; nil if it may.
func Check(s *toolset.Settings, h *History) *Denial {
	switch n := h.Started[s.Name]; {
	case s.Forbidden:
		return &Denial{s.Rules["constraints.forbidden"], fmt.Sprintf("tool %s is forbidden", s.Name)}
	case s.MaxInvocations > 0 && n >= s.MaxInvocations:
		return &Denial{
			s.Rules["constraints.max_invocations"],
			fmt.Sprintf("tool %s may be called %s in an invocation, and was called %s", s.Name, times(s.MaxInvocations), times(n)),
		}
	}
	for i := range s.OnlyAfter {
		if p := &s.OnlyAfter[i]; !h.met(p) {
			return &Denial{cmp.Or(p.Rule, s.Rules["constraints.only_after"]), fmt.Sprintf("tool %s may only be called after %s has ended without an error", s.Name, p.Text)}
		}
	}
	return nil
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// met reports whether a tool that an entry of only_after matches has ended without an error. As in a list of allowed tools, the bare name
// of an MCP server's tool doesn't count: the server could choose that of another tool.
func (h *History) met(p *toolset.Predecessor) bool {
	return slices.ContainsFunc(h.Completed, func(name string) bool { return p.Matches(name, "") })
}
