package gate

import (
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// approval applies the settings of approvals to the answer about the arguments. A denial stays one.
func (j *judge) approval(a *Answer) *Answer {
	runs, listed := j.ran || j.Settings.Kind == "execute", a.Decision == Allow && j.ran && j.listed
	a.Runs, a.Listed = runs, listed
	if a.Decision == Deny || !j.Approvals.Given && j.Settings.Ask == "" {
		return a
	}
	if !runs && (j.Settings.Ask == "" || j.Settings.Ask == "off") {
		return a
	}
	answer, rule := j.Approvals.Decide(j.Settings, runs, listed)
	out := *a
	out.Rule = ToolRule(rule)
	switch {
	case answer == toolset.Deny:
		why := "the policy lets no call run that a person would have to approve"
		if a.Decision == Ask {
			why += ": " + a.Message
		}
		return &Answer{Decision: Deny, Reason: string(policy.ApprovalDenied), Rule: out.Rule, Message: why, Capability: a.Capability, Path: a.Path}
	case answer == toolset.Run && a.Decision == Allow, answer == toolset.Ask && a.Decision == Ask:
		return a
	case answer == toolset.Run:
		out.Decision, out.Message = Allow, "security is full: "+a.Message
		return &out
	}
	out.Decision, out.Reason, out.Message = Ask, ReasonApproval, "the policy asks a person about this call"
	if !listed && runs {
		out.Message += ": no rule names what it runs"
	}
	out.model = fmt.Sprintf("tool %s isn't available: it needs an approval: %s", j.Call.Tool, out.Message)
	return &out
}
