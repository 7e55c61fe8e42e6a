package gate

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// The decisions, the strictest last.
const (
	Allow = "allow"
	Ask   = "ask"
	Deny  = "deny"
)

// Reasons beyond those of package policy.
const (
	ReasonBadCall     = "bad_call"
	ReasonSchema      = "schema"
	ReasonUnclear     = "unclear"
	ReasonApproval    = "approval_required"
	ReasonNotVisible  = "not_visible"
	ReasonHookBlocked = "hook_blocked"
	ReasonRewriteLost = "rewrite_lost"
)

// Rule is where an answer comes from.
type Rule struct {
	ID        string
	Authority policy.Authority
	At        policy.Position
}

// ToolRule converts a rule of the tool layer.
func ToolRule(r toolset.Rule) *Rule {
	if r.ID == "" {
		return nil
	}
	return &Rule{r.ID, r.Authority(), r.At}
}

// Answer is the decision about a call.
type Answer struct {
	ID         string
	Decision   string // Allow, Ask or Deny
	Reason     string // a reason of package policy, or one of those above
	Message    string // for a person: what was decided and why, in one line
	Rule       *Rule  // nil where none decided
	Capability string // what the deciding target needs: "read" … "connect", "unknown" or "none"
	Declared   bool   // the tool's own table grants that capability
	Grants     []string
	Suggest    string // the smallest rule that would allow it, as TOML; "" where none can
	Risk       string

	Runs   bool // the call runs a command
	Listed bool // each command of it is allowed by a rule that names it

	Path string // the deciding path as the call has it; "" for another target
	Root string // the workspace

	Arguments []byte // with which the call runs, if hooks have changed them; else nil

	model string // the first line of ToModel
}

// Denied returns an answer about a call that no rule of [access] decided: its tool isn't visible, say. why follows "tool NAME isn't
// available: ".
func Denied(c *Call, reason string, rule *Rule, why string) *Answer {
	a := &Answer{ID: c.ID, Decision: Deny, Reason: reason, Rule: rule, Capability: "none", Message: why}
	a.model = fmt.Sprintf("tool %s isn't available: %s", clip(cmp.Or(c.Tool, "(unknown)")), why)
	return a
}

// AsksFor returns the answer of a call that would be allowed, and about which a person is asked. why is what demands it.
func (a *Answer) AsksFor(c *Call, rule *Rule, why string) *Answer {
	out := *a
	out.Decision, out.Reason, out.Message = Ask, ReasonApproval, why
	if rule != nil {
		out.Rule = rule
	}
	out.model = fmt.Sprintf("tool %s isn't available: it needs an approval: %s", clip(c.Tool), why)
	return &out
}

// Allowed returns the answer of a call that may run, although a person was asked before.
func (a *Answer) Allowed() *Answer {
	out := *a
	out.Decision = Allow
	if a.Decision == Ask {
		out.Reason, out.Suggest = string(policy.Allowed), ""
	}
	return &out
}

// Swallow reports whether the caller has to swallow the call: unless it's allowed.
func (a *Answer) Swallow() bool { return a.Decision != Allow }

// MetaDecision is the decision in the form of metadata.
func (a *Answer) MetaDecision() string {
	return map[string]string{Allow: "allowed", Ask: "asked"}[a.Decision] + map[string]string{Deny: "blocked"}[a.Decision]
}

// maxModelLines is how many lines a model gets about a call that doesn't run.
const maxModelLines = 20

// ToModel is the text that a model gets in place of the call's result, so that it can correct itself.
func (a *Answer) ToModel() string {
	lines := []string{a.model}
	if r := a.Rule; r != nil {
		lines = append(lines, fmt.Sprintf("rule: %s (%s)", r.ID, r.At))
	}
	if len(a.Grants) > 0 {
		lines = append(lines, "granted: "+strings.Join(a.Grants, "; "))
	}
	if a.Decision == Ask {
		lines = append(lines, "to allow: a person has to approve the call")
	}
	if a.Suggest != "" {
		lines = append(lines, "to allow: a person can add this to the policy:")
		lines = append(lines, strings.Split(strings.TrimSpace(a.Suggest), "\n")...)
	}
	if len(lines) > maxModelLines {
		lines = append(lines[:maxModelLines-1], "…")
	}
	for i, l := range lines {
		lines[i] = strings.Map(func(r rune) rune {
			if r < ' ' || r == 0x7f {
				return ' '
			}
			return r
		}, l)
	}
	return strings.Join(lines, "\n")
}
