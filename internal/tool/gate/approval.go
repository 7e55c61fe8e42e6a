package gate

import (
	"cmp"
	"fmt"

	"github.com/toolguard/toolguard/internal/policy"
)

// approval applies the settings of approvals to the answer about the arguments. A denial stays one.
func (j *judge) approval(a *Answer) *Answer {
	if a.Decision == Deny {
		return a
	}
	runs := j.ran || j.Settings.Kind == "execute"
	ask := j.Settings.Ask
	if ask == "" && runs && j.Approvals.Given {
		ask = j.Approvals.Ask
	}
	if !j.Approvals.Given && ask == "" || !runs && (ask == "" || ask == "off") {
		return a
	}
	security := cmp.Or(j.Approvals.Security, "allowlist")
	listed := a.Decision == Allow && j.ran && j.listed
	switch {
	case security == "deny":
		return j.denyApproval(a, "security", "the policy lets no call run that an approval would be for")
	case ask == "always":
		return j.require(a, "the policy asks a person about each call of the tool")
	case listed || security == "full":
		return j.pass(a)
	case ask == "off":
		return j.denyApproval(a, "ask", "no rule names what it runs, and the policy asks nobody")
	case a.Decision == Ask:
		return a
	}
	return j.require(a, "no rule names what it runs, and the policy asks a person then")
}

// pass lets a call run that the approvals let run although it's unclear.
func (j *judge) pass(a *Answer) *Answer {
	if a.Decision == Allow {
		return a
	}
	out := *a
	out.Decision, out.Rule = Allow, ToolRule(j.Approvals.Rules["security"])
	out.Message = "security is full: " + a.Message
	return &out
}

// rule is the key that decides about approvals: the tool's own, else that of [approvals].
func (j *judge) rule(key string) *Rule {
	if r := ToolRule(j.Settings.Rules[key]); r != nil {
		return r
	}
	return ToolRule(j.Approvals.Rules[key])
}

func (j *judge) require(a *Answer, why string) *Answer {
	out := *a
	out.Decision, out.Reason, out.Rule, out.Message = Ask, ReasonApproval, j.rule("ask"), why
	out.model = fmt.Sprintf("tool %s isn't available: it needs an approval: %s", j.Call.Tool, why)
	return &out
}

func (j *judge) denyApproval(a *Answer, key, why string) *Answer {
	if a.Decision == Ask {
		why += ": " + a.Message
	}
	return &Answer{
		Decision: Deny, Reason: string(policy.ApprovalDenied), Rule: j.rule(key), Message: why, Capability: a.Capability, Path: a.Path,
	}
}
