package denials

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/egress/message"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// SessionID formats a session's number for events and people.
func SessionID(number uint64) string { return fmt.Sprintf("%016x", number) }

// about sets the fields that all events of a session under a policy have.
func about(e event.Event, p *policy.Compiled, session uint64, tool, agent string) event.Event {
	e.Time, e.Session, e.Tool, e.Agent, e.Mode = time.Now(), SessionID(session), tool, agent, "enforce"
	e.Policy, e.Digest = p.Name, p.Digest
	return e
}

// setRule sets the rule that decided.
func setRule(e *event.Event, c *policy.Compiled, v policy.Verdict) {
	if v.Layer >= 0 {
		e.Authority = c.Layers[v.Layer].Authority.String()
	}
	if v.Rule >= 0 {
		rule := c.Rules[v.Rule]
		e.Rule, e.Place = rule.ID, rule.Position.String()
	}
}

// egressEvent makes the event of a denial by egress, without advice.
func egressEvent(k *message.Denial) event.Event {
	a := &k.Answer
	e := event.Event{Kind: event.Denial, Mechanism: "egress:" + k.Protocol}
	e.Resource, e.Capability, e.Target = policy.Net.String(), "connect", a.Target
	if strings.HasPrefix(a.Target, "dns://") { // a name, not the address that it was resolved to
		e.Capability = "resolve"
	}
	e.Reason, e.Suggest = string(a.Reason), a.Suggest
	if a.Authority != policy.Builtin && a.Authority < policy.NumAuthorities {
		e.Authority = a.Authority.String()
	}
	if a.Rule != nil {
		e.Rule, e.Place = a.Rule.ID, a.Rule.Position.String()
	}
	e.Extra = map[string]string{}
	for name, value := range map[string]string{"method": k.Method, "why": a.Note, "to": text(k.To), "from": text(k.Client)} {
		if value != "" {
			e.Extra[name] = value
		}
	}
	return e
}

// text formats an address and port; "": none.
func text(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// limitEvent makes the event of a limit that was met.
func limitEvent(name string, position policy.Position, times uint64) event.Event {
	return event.Event{
		Kind: event.Denial, Resource: "limits", Capability: name, Target: name, Mechanism: "supervisor", Count: times,
		Reason: string(policy.Limit), Rule: "limits." + name, Place: position.String(),
	}
}
