package gate

import (
	"github.com/toolguard/toolguard/internal/printable"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// JSON is the answer as clients get it.
func (a *Answer) JSON() *message.Answer {
	out := &message.Answer{
		Decision: a.Decision, Reason: a.Reason, Message: printable.Clean(a.Message), Capability: a.Capability, Declared: a.Declared,
		Risk: a.Risk, Grants: append([]string{}, a.Grants...), Suggest: a.Suggest, Swallow: a.Swallow(), Rule: a.Rule.JSON(), Arguments: a.Arguments,
	}
	if a.ID != "" {
		out.ID = &a.ID
	}
	if out.Swallow {
		out.ToModel = a.ToModel()
	}
	out.Metadata = message.Metadata{Decision: a.MetaDecision(), Path: a.Path, Root: a.Root}
	return out
}

// JSON is the rule as clients get it; nil for none.
func (r *Rule) JSON() *message.Rule {
	if r == nil {
		return nil
	}
	return &message.Rule{ID: r.ID, Authority: r.Authority.String(), File: r.At.File, Line: r.At.Line}
}
