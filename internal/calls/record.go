package calls

import (
	"errors"
	"fmt"
	"time"

	"github.com/toolguard/toolguard/internal/calls/serve"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/tool"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/hook"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// Recorder makes events of what happens to calls.
type Recorder struct {
	Emit func(event.Event)
}

// Under names a policy in each event from then on.
func (r *Recorder) Under(c *policy.Compiled) {
	emit := r.Emit
	r.Emit = func(e event.Event) {
		e.Policy, e.Digest = c.Name, c.Digest
		emit(e)
	}
}

// about describes a call for events.
func about(c *gate.Call, risk string, declared bool) *event.Call {
	return &event.Call{
		ID: c.ID, Invocation: c.Invocation, Tool: c.Tool, Agent: c.Agent, Provider: c.Provider, Model: c.Model, Arguments: c.Arguments,
		Risk: risk, Declared: declared, HostSession: c.Session, ToolUseID: c.ToolUseID, Traceparent: c.Traceparent,
	}
}

// answered describes a call with its answer, with the rule that decided.
func (r *Recorder) answered(c *gate.Call, a *gate.Answer, e func(*event.Call) event.Event) {
	out := e(about(c, a.Risk, a.Declared))
	if a.Rule != nil {
		out.Rule, out.Authority, out.Place = a.Rule.ID, a.Rule.Authority.String(), a.Rule.At.String()
	}
	r.Emit(out)
}

// Denied records a call that doesn't run.
func (r *Recorder) Denied(c *gate.Call, a *gate.Answer) {
	r.answered(c, a, func(c *event.Call) event.Event { return event.ToolDenied(c, a.Reason, a.Message) })
}

// Ran records the end of a call that ran.
func (r *Recorder) Ran(l *tool.Life, end string, m *message.End) {
	r.answered(l.Call, l.Answer, func(c *event.Call) event.Event {
		return event.ToolRan(c, end, time.Duration(m.Duration)*time.Millisecond, l.Rewritten, l.ByPerson)
	})
}

// Asked records that a person is asked about a call.
func (r *Recorder) Asked(c *gate.Call, a *message.Approval) {
	r.Emit(event.ApprovalRequested(about(c, a.Risk, false), a.ID, a.Reason))
}

// Decided records a person's decision about a call.
func (r *Recorder) Decided(c *gate.Call, a *message.Approval) {
	r.Emit(event.ApprovalDecided(about(c, a.Risk, false), a.ID, *a.Decision, a.Rule, decider(a)))
}

// Unanswered records that nobody has decided about a call.
func (r *Recorder) Unanswered(c *gate.Call, a *message.Approval, what string) {
	r.Emit(event.ApprovalEnded(about(c, a.Risk, false), a.ID, what))
}

func decider(a *message.Approval) event.Decider {
	if by := a.ResolvedBy; by != nil {
		return event.Decider{UID: by.UID, PID: by.PID, Exe: by.Exe, Via: by.Via}
	}
	return event.Decider{UID: -1}
}

func asks(m *message.Grant, a *message.Approval, lasts int64) *event.GrantRequest {
	return &event.GrantRequest{
		ID: a.ID, Resource: m.Resource, Capability: m.Action, Target: m.Target, Argv: m.Argv, Rule: a.Rule, Why: m.Why, For: time.Duration(lasts) * time.Millisecond,
	}
}

// Requested records that a process asks for a grant.
func (r *Recorder) Requested(m *message.Grant, a *message.Approval) {
	r.Emit(event.GrantRequested(asks(m, a, m.For)))
}

// GrantDecided records a person's decision about a grant.
func (r *Recorder) GrantDecided(m *message.Grant, a *message.Approval, effect string, lasts int64) {
	what := event.Given
	if *a.Decision == message.Deny {
		what = event.Rejected
	}
	r.Emit(event.GrantDecided(asks(m, a, lasts), what, effect, decider(a)))
}

// GrantUnanswered records that nobody has decided about a grant.
func (r *Recorder) GrantUnanswered(m *message.Grant, a *message.Approval, what string) {
	r.Emit(event.GrantEnded(asks(m, a, m.For), what))
}

// NotRun records the error of a call that doesn't run.
func (r *Recorder) NotRun(c *gate.Call, err error) {
	if denied := (*tool.NotRun)(nil); errors.As(err, &denied) {
		r.Denied(c, denied.Answer)
	} else {
		r.Failed(c, err)
	}
}

// HookFailed records a hook that gave no valid answer.
func (r *Recorder) HookFailed(c *gate.Call, risk, name, stage, why string) {
	r.Emit(event.HookFailure(about(c, risk, false), name, stage, why))
}

// AfterFailed records a hook that failed after a call.
func (r *Recorder) AfterFailed(f *hook.Failure) {
	r.Emit(event.HookFailure(&event.Call{ID: f.Call, Tool: f.Tool}, f.Hook, "after", f.Err.Error()))
}

// Failed records that something about a call couldn't be recorded or undone.
func (r *Recorder) Failed(c *gate.Call, err error) {
	r.Emit(event.ToolDenied(about(c, "", false), "engine_error", err.Error()))
}

// Rejected records a request that its sender may not make, or that contradicts another one.
func (r *Recorder) Rejected(q *serve.Request, status int, err error) {
	who := "a process of the session"
	if q.Peer.Session == "" {
		who = fmt.Sprintf("process %d of user %d", q.Peer.PID, q.Peer.UID)
	}
	r.Emit(event.RequestRejected(q.Method+" "+q.Path, status, who+": "+err.Error()))
}
