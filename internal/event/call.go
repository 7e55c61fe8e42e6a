package event

import (
	"strconv"
	"time"
)

// Invoke is the capability of the events about tool calls, and Tools their resource. The target is the tool's name.
const (
	Tools  = "tools"
	Invoke = "call"
)

// The ends of a tool call.
const (
	OK        = "ok"
	Failed    = "error"
	Cancelled = "cancelled"
)

// What happens to an approval or a grant. Given is about a grant alone, Decided about an approval.
const (
	Requested = "requested"
	Decided   = "decided"
	Given     = "given"
	Rejected  = "denied"
	Expired   = "expired"   // nobody answered in time
	Withdrawn = "withdrawn" // by the requester, or with its call
)

// deny is the decision of a person that a call may not run.
const deny = "deny"

// Call is a tool call as its events describe it. Only ID and Tool are always known.
type Call struct {
	ID, Invocation         string
	Tool                   string
	Agent, Provider, Model string // that the call names; the session's agent is Event.Agent
	Arguments              []byte // a JSON object
	Risk                   string
	Declared               bool // the tool's own table grants the capability that decided

	// Of the host's own telemetry: its session, its id of the call, and the W3C trace context.
	HostSession, ToolUseID, Traceparent string
}

// Decider is who decided about an approval or a grant. Unknown fields are zero; UID is -1.
type Decider struct {
	UID, PID int
	Exe      string
	Via      string // "terminal", "command" or "api"
}

// event returns an event about the call. The caller fills the fields of the session, of the decision, and the process.
func (c *Call) event(k Kind) Event {
	e := Event{Kind: k, Time: time.Now(), Resource: Tools, Capability: Invoke, Target: c.Tool}
	e.set("call", c.ID)
	e.set("invocation", c.Invocation)
	e.set("caller", c.Agent)
	e.set("provider", c.Provider)
	e.set("model", c.Model)
	e.set("session.id", c.HostSession)
	e.set("tool_use_id", c.ToolUseID)
	e.set("traceparent", c.Traceparent)
	e.set("risk", c.Risk)
	e.set("declared", strconv.FormatBool(c.Declared))
	if len(c.Arguments) > 0 {
		e.set("arguments", boundArguments(c.Arguments))
	}
	return e
}

// set adds a fact, unless its value is "".
func (e *Event) set(key, value string) {
	if value == "" {
		return
	}
	if e.Extra == nil {
		e.Extra = map[string]string{}
	}
	e.Extra[key] = value
}

// ToolDenied returns the event of a call that doesn't run. The message is for a person.
func ToolDenied(c *Call, reason, message string) Event {
	e := c.event(ToolDeny)
	e.Reason = reason
	e.set("message", message)
	return e
}

// RequestRejected returns the event that a process has sent a request about calls or approvals that it may not send, or that contradicts another one.
func RequestRejected(request string, status int, message string, by ...Process) Event {
	e := Event{Kind: ToolDeny, Time: time.Now(), Resource: Tools, Capability: Invoke, Target: request, Reason: "request_rejected", Process: by}
	e.set("status", strconv.Itoa(status))
	e.set("message", message)
	return e
}

// ToolRan returns the event of a call that ran. The end is OK, Failed or Cancelled. rewritten: hooks changed its arguments. approved: a
// person has decided that it may run.
func ToolRan(c *Call, end string, ran time.Duration, rewritten, approved bool) Event {
	e := c.event(ToolCall)
	e.set("end", end)
	e.set("duration_ms", strconv.FormatInt(ran.Milliseconds(), 10))
	if rewritten {
		e.set("rewritten", "true")
	}
	if approved {
		e.set("approved", "true")
	}
	return e
}

// ApprovalRequested returns the event that a person is asked about a call, and why.
func ApprovalRequested(c *Call, id, why string) Event {
	e := c.event(Approval)
	e.set("what", Requested)
	e.set("approval", id)
	e.set("why", why)
	return e
}

// ApprovalDecided returns the event that a person has decided: "allow-once", "allow-always" or "deny". rule is what allow-always stores, as
// TOML.
func ApprovalDecided(c *Call, id, decision, rule string, by Decider) Event {
	e := c.event(Approval)
	e.set("what", Decided)
	e.set("approval", id)
	e.set("decision", decision)
	e.Suggest = rule
	e.decidedBy(by)
	return e
}

// ApprovalEnded returns the event that a request has ended without a decision: it's Expired or Withdrawn.
func ApprovalEnded(c *Call, id, what string) Event {
	e := c.event(Approval)
	e.set("what", what)
	e.set("approval", id)
	return e
}

// HookFailure returns the event that a hook gave no valid answer. stage is "before" or "after" the call; a before-hook that fails blocks it.
func HookFailure(c *Call, hook, stage, why string) Event {
	e := c.event(HookFailed)
	e.set("hook", hook)
	e.set("stage", stage)
	e.set("why", why)
	return e
}

// GrantRequest is a request for the smallest grant that allows an access.
type GrantRequest struct {
	ID                           string
	Resource, Capability, Target string
	Argv                         []string // of a command
	Rule                         string   // that would be added, as TOML
	Why                          string   // what the requester says
	For                          time.Duration
}

func (g *GrantRequest) event(what string) Event {
	e := Event{Kind: Grant, Time: time.Now(), Resource: g.Resource, Capability: g.Capability, Target: g.Target, Suggest: g.Rule}
	if len(g.Argv) > 0 {
		e.Asked = commandLine(RedactArgv(TruncateArgv(g.Argv)))
	}
	e.set("what", what)
	e.set("approval", g.ID)
	e.set("why", g.Why)
	if g.For > 0 {
		e.set("for_ms", strconv.FormatInt(g.For.Milliseconds(), 10))
	}
	return e
}

// GrantRequested returns the event that a confined process asks for a grant.
func GrantRequested(g *GrantRequest) Event { return g.event(Requested) }

// GrantDecided returns the event that a person has decided about a grant: it's Given or Rejected. effect is when a grant that was given is
// in force: "now", or "next start" and why not now. g.For is what the person chose.
func GrantDecided(g *GrantRequest, what, effect string, by Decider) Event {
	e := g.event(what)
	e.set("effect", effect)
	e.decidedBy(by)
	return e
}

// GrantEnded returns the event that a request for a grant has ended without a decision: it's Expired or Withdrawn.
func GrantEnded(g *GrantRequest, what string) Event { return g.event(what) }

func (e *Event) decidedBy(by Decider) {
	e.set("via", by.Via)
	if by.PID > 0 || by.UID >= 0 {
		e.Process = []Process{{PID: by.PID, UID: by.UID, Exe: by.Exe}}
	}
}

// IsAboutCall reports whether an event is about a tool call, an approval or a grant.
func (k Kind) IsAboutCall() bool {
	switch k {
	case ToolDeny, ToolCall, Approval, HookFailed, Grant:
		return true
	}
	return false
}

// callVerdict is the outcome of an event about a call.
func callVerdict(e *Event) verdict {
	const observed, allowed, denied, modified = 3, 1, 2, 4
	const approved, corrected, delayed, none, rejected, unauthorized, failed = 8, 11, 14, 16, 25, 26, 27
	switch {
	case e.Kind == HookFailed:
		return verdict{observed, failed, 2, 3}
	case e.Kind == ToolDeny && e.Reason == "engine_error":
		return verdict{denied, failed, 2, 4}
	case e.Kind == ToolDeny && (e.Reason == "approval_denied" || e.Reason == "approval_timeout"):
		return verdict{denied, unauthorized, 2, 2}
	case e.Kind == ToolDeny && e.Reason == "protected":
		return verdict{denied, rejected, 2, 4}
	case e.Kind == ToolDeny: // the host is to swallow the call: nothing has blocked it
		return verdict{denied, rejected, 2, 3}
	case e.Kind == ToolCall:
		return ranVerdict(e)
	}
	switch what := e.Extra["what"]; {
	case what == Requested:
		return verdict{observed, delayed, 0, 1}
	case what == Given, what == Decided && e.Extra["decision"] != deny:
		return verdict{allowed, approved, 1, 2}
	case what == Rejected, what == Decided:
		return verdict{denied, unauthorized, 2, 2}
	}
	return verdict{observed, none, 2, 2}
}

func ranVerdict(e *Event) verdict {
	v := verdict{action: 1, disposition: 1, severity: 1}
	if e.Extra["rewritten"] != "" {
		v = verdict{action: 4, disposition: 11, severity: 2}
	}
	if e.Extra["approved"] != "" {
		v.disposition = 8
	}
	switch e.Extra["end"] {
	case OK:
		v.status = 1
	case Failed:
		v.status = 2
	}
	return v
}

// callSummary describes an event about a call in a few words.
func callSummary(e *Event) string {
	tool := join("tool call", Quote(e.Target))
	switch e.Kind {
	case ToolDeny:
		return join("denied", tool+because(e.Extra["message"]))
	case ToolCall:
		ms, _ := strconv.ParseInt(e.Extra["duration_ms"], 10, 64)
		return join("ran", tool+":", first(Plain(e.Extra["end"]), "unknown")+",", (time.Duration(ms) * time.Millisecond).String())
	case HookFailed:
		return join("hook", Quote(e.Extra["hook"]), "failed", Plain(e.Extra["stage"]), tool+because(e.Extra["why"]))
	case Approval:
		if e.Extra["what"] == Decided {
			return join("approval decided:", Plain(e.Extra["decision"]), "for", tool)
		}
		return join("approval", Plain(e.Extra["what"]), "for", tool+because(e.Extra["why"]))
	}
	effect := ""
	if e.Extra["effect"] != "" {
		effect = "(in force: " + Plain(e.Extra["effect"]) + ")"
	}
	return join("grant", Plain(e.Extra["what"])+":", Plain(e.Resource), Plain(e.Capability), Quote(e.Target), askedFor(e), effect)
}

func because(why string) string {
	if why == "" {
		return ""
	}
	return ": " + Plain(why)
}

// summarized reports whether the summary of an event about a call has a fact, so that the details needn't.
func summarized(e *Event, key string) bool {
	switch key {
	case "what", "message", "end", "duration_ms", "hook", "stage", "decision", "effect":
		return true
	case "why":
		return e.Kind != Grant
	}
	return false
}
