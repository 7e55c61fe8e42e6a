package session

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/launch"
)

// NotStarted returns the event of a command that wasn't started, with the reason. cfg has no policy if the policy has errors.
func NotStarted(cfg Config, session string, err error) event.Event {
	e := event.Event{
		Kind: event.SessionRefused, Time: time.Now(), Session: session, Tool: cfg.Tool, Agent: cfg.Agent, Mode: "enforce", Target: cfg.Argv[0],
		Reason: "failed", Extra: map[string]string{"why": strings.ReplaceAll(err.Error(), "\n", "; ")},
		Process: []event.Process{{PID: os.Getpid(), UID: os.Getuid(), Argv: event.TruncateArgv(cfg.Argv)}},
	}
	if c := cfg.Policy; c != nil {
		e.Policy, e.Digest = c.Name, c.Digest
	}
	var notEnforceable *NotEnforceable
	var missing *launch.NotFound
	var notExecutable *launch.NotExecutable
	var mistakes policy.Errors
	switch {
	case errors.As(err, &notEnforceable):
		e.Reason, e.Mechanism, e.Degraded = "not_enforceable", notEnforceable.Report.Backend, degraded(notEnforceable.Report.Blocking)
	case errors.As(err, &mistakes):
		e.Reason = "policy_error"
	case errors.As(err, &missing):
		e.Reason = "not_found"
	case errors.As(err, &notExecutable):
		e.Reason = "not_executable"
	}
	return e
}

// degraded lists the rules that aren't enforced, with the reason. Adjacent rules with the same reason are one entry.
func degraded(notes []policy.Enforceability) (list []string) {
	for i := 0; i < len(notes); {
		first := notes[i]
		for i++; i < len(notes) && notes[i].Why == first.Why; i++ {
		}
		ids := first.ID
		if last := notes[i-1].ID; last != ids {
			ids += " to " + last
		}
		list = append(list, ids+": "+first.Why)
	}
	return list
}

// executionDenied returns by which rule the policy doesn't let the command's program be executed; "": it lets it.
func (c *Config) executionDenied(program string) string {
	p, path := c.Policy, c.canonical(program)
	if v := p.CheckFS(path, policy.Execute); !v.Allow {
		return "the policy denies execute on " + path + ": " + decidingRule(p, v)
	}
	if v := p.CheckCommand(path, c.Argv); !v.Allow {
		why := "the policy doesn't list this command: " + decidingRule(p, v)
		if called := p.NameMismatch(v, c.Argv[0]); called != "" {
			why += ": " + called
		}
		return why
	}
	return ""
}

func decidingRule(c *policy.Compiled, v policy.Verdict) string {
	if v.Rule < 0 {
		return string(v.Reason)
	}
	rule := c.Rules[v.Rule]
	return fmt.Sprintf("%s, rule %s (%s)", v.Reason, rule.ID, rule.Position)
}
