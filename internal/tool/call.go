package tool

import (
	"encoding/json"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// Step is what has to happen next in the life of a call.
type Step uint8

// The steps, in their order. A call that is denied by one never reaches the next.
const (
	Judge       Step = iota // is it visible, valid, and allowed by the gate?
	Hooks                   // run the before-hooks; if they change the arguments, Judge follows again
	Constraints             // may it run after the calls before it? It isn't counted yet
	Approval                // a person decides
	Start                   // count it, unless a constraint denies it by now
	Running
	Ended
	Denied
)

// Life is the life of one call: a state machine without effects. Its driver does what Step says, and reports the result by the method of the
// same step. A report about any other step is a mistake of the driver's, and denies the call.
type Life struct {
	Call   *gate.Call   // with the arguments as they are now
	Answer *gate.Answer // of the last step that had one

	Step      Step
	Rewritten bool // hooks have changed the arguments
	ByPerson  bool // a person has decided that it may run

	hooked bool
	ask    string // why a hook demands an approval; "": none does
}

// HookResult is the result of all before-hooks.
type HookResult struct {
	Arguments json.RawMessage // as the hooks left them; nil: unchanged
	Blocked   string          // why a hook blocks the call; "": none does
	Ask       string          // why a hook demands an approval; "": none does
	Rule      *gate.Rule      // of the hook that blocks or asks
}

// NewLife begins the life of a call.
func NewLife(c *gate.Call) *Life { return &Life{Call: c} }

// at checks that a report is about the current step. One that comes after the call's end, or its denial, changes nothing.
func (l *Life) at(s Step) bool {
	if l.Step == s {
		return true
	}
	l.deny(string(policy.EngineError), nil, "a mistake in toolguard: steps in the wrong order")
	return false
}

func (l *Life) deny(reason string, rule *gate.Rule, why string) {
	if l.Step == Ended || l.Step == Denied {
		return
	}
	before := l.Answer
	l.Answer, l.Step = gate.Denied(l.Call, reason, rule, why), Denied
	if before != nil {
		l.Answer.Risk, l.Answer.Root, l.Answer.Path, l.Answer.Capability = before.Risk, before.Root, before.Path, before.Capability
	}
}

// Failed denies the call, since a step couldn't be taken.
func (l *Life) Failed(err error) { l.deny(string(policy.EngineError), nil, err.Error()) }

// Judged reports the answer of the gate and of what comes before it.
func (l *Life) Judged(a *gate.Answer) {
	if !l.at(Judge) {
		return
	}
	switch l.Answer = a; {
	case a.Decision == gate.Deny:
		l.Step = Denied
	case !l.hooked:
		l.Step = Hooks
	default:
		l.Step = Constraints
	}
}

// Hooked reports the result of the before-hooks.
func (l *Life) Hooked(r HookResult) {
	if !l.at(Hooks) {
		return
	}
	l.hooked = true
	if r.Blocked != "" {
		l.deny(gate.ReasonHookBlocked, r.Rule, r.Blocked)
		return
	}
	if r.Ask != "" {
		l.ask = r.Ask
	}
	l.Step = Constraints
	if r.Arguments != nil {
		c := *l.Call
		c.Arguments = r.Arguments
		l.Call, l.Rewritten, l.Step = &c, true, Judge
	}
	if l.ask != "" && l.Step == Constraints {
		l.demand(r.Rule)
	}
}

// demand makes the answer one that asks a person.
func (l *Life) demand(rule *gate.Rule) {
	if l.Answer.Decision != gate.Ask {
		l.Answer = l.Answer.AsksFor(l.Call, rule, l.ask)
	}
}

// Permitted reports whether a constraint denies the call; nil if none does.
func (l *Life) Permitted(denial *gate.Answer) {
	if !l.at(Constraints) {
		return
	}
	if denial != nil {
		l.Answer, l.Step = denial, Denied
		return
	}
	if l.ask != "" {
		l.demand(nil)
	}
	l.Step = Start
	if l.Asks() {
		l.Step = Approval
	}
}

// Approved reports that the call may run although the gate asks. byPerson: a person has decided that, now or once and for all.
func (l *Life) Approved(byPerson bool) {
	if l.at(Approval) {
		l.Step, l.ByPerson = Start, byPerson
	}
}

// Asks reports whether a person is asked before the call may run.
func (l *Life) Asks() bool { return l.ask != "" || l.Answer.Decision == gate.Ask }

// ByHook reports whether a hook demands the approval.
func (l *Life) ByHook() bool { return l.ask != "" }

// Rejected reports that the call may not run, and why.
func (l *Life) Rejected(why string) {
	if l.at(Approval) {
		l.deny(string(policy.ApprovalDenied), l.Answer.Rule, why)
	}
}

// Unanswered reports that nobody has decided in time.
func (l *Life) Unanswered(why string) {
	if l.at(Approval) {
		l.deny(string(policy.ApprovalTimeout), l.Answer.Rule, why)
	}
}

// Lost reports that the arguments with which the call would run aren't known any more.
func (l *Life) Lost() {
	l.deny(gate.ReasonRewriteLost, nil, "hooks changed the arguments of the call, and they aren't kept any more: submit the call again")
}

// Counted reports that the call was counted, or which constraint denies it.
func (l *Life) Counted(denial *gate.Answer) {
	if !l.at(Start) {
		return
	}
	l.Step = Running
	if denial != nil {
		l.Answer, l.Step = denial, Denied
		return
	}
	l.Answer = l.Answer.Allowed()
}

// End reports that the call has ended or was cancelled.
func (l *Life) End() {
	if l.Step != Denied {
		l.Step = Ended
	}
}
