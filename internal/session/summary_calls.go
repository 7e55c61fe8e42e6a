package session

import (
	"fmt"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/event"
)

// Calls are a session's tool calls and approvals as its events describe them.
type Calls struct {
	Ran, Failed, Denied uint64 // Failed: of those that ran, the ones that ended with an error
	HookFailures        uint64
	Denials             []CallDenial
	Approvals           []Approval // in the order of their requests
	Others              uint64     // denied calls, and requests, that aren't listed

	at map[string]int // where a denial, or an approval, is
}

// CallDenial is calls of one tool that were denied for the same reason.
type CallDenial struct {
	Tool, Reason, Rule, Place string
	Message                   string // of the first one
	Count                     uint64
}

// Approval is a request about which a person was asked: for a tool call or for a grant.
type Approval struct {
	ID       string
	Grant    bool
	About    string // the tool, or what a grant is for
	What     string // requested, decided or given, denied, expired, withdrawn
	Decision string // allow-once, allow-always or deny; "" of a grant
	Effect   string // of a grant that was given
	Via      string
	By       *event.Process // who decided; nil: unknown, or nobody
	Time     time.Time      // of the decision, or else of the request
}

// Any reports whether there was a call, or a request.
func (c *Calls) Any() bool {
	return c.Ran+c.Denied+c.HookFailures+c.Others > 0 || len(c.Approvals) > 0
}

// add adds an event about a call.
func (c *Calls) add(e *event.Event) {
	switch e.Kind {
	case event.ToolCall:
		c.Ran++
		if e.Extra["end"] == event.Failed {
			c.Failed++
		}
	case event.ToolDeny:
		c.Denied++
		c.denied(e)
	case event.HookFailed:
		c.HookFailures++
	case event.Approval, event.Grant:
		c.approval(e)
	}
}

// index returns where an entry is; ok is false if it's new. A new one has the index n, or -1 if there are too many.
func (c *Calls) index(n int, key ...string) (i int, ok bool) {
	name := fmt.Sprintf("%q", key)
	if i, ok = c.at[name]; ok {
		return i, true
	}
	if n == MostListed {
		return -1, false
	}
	if c.at == nil {
		c.at = map[string]int{}
	}
	c.at[name] = n
	return n, false
}

func (c *Calls) denied(e *event.Event) {
	i, known := c.index(len(c.Denials), "denied", e.Target, e.Reason, e.Rule)
	switch {
	case known:
		c.Denials[i].Count++
	case i >= 0:
		c.Denials = append(c.Denials, CallDenial{e.Target, e.Reason, e.Rule, e.Place, e.Extra["message"], 1})
	default:
		c.Others++
	}
}

func (c *Calls) approval(e *event.Event) {
	a := Approval{
		ID: e.Extra["approval"], Grant: e.Kind == event.Grant, About: e.Target, What: e.Extra["what"], Decision: e.Extra["decision"],
		Effect: e.Extra["effect"], Via: e.Extra["via"], Time: e.Time,
	}
	if a.Grant {
		a.About = strings.TrimSpace(strings.Join([]string{e.Resource, e.Capability, e.Target}, " "))
	}
	if a.What != event.Requested && len(e.Process) > 0 {
		by := e.Process[0]
		a.By = &by
	}
	i, known := c.index(len(c.Approvals), string(e.Kind), a.ID)
	switch {
	case known:
		c.Approvals[i] = a
	case i >= 0:
		c.Approvals = append(c.Approvals, a)
	case a.What == event.Requested: // a later event is about the same one
		c.Others++
	}
}
