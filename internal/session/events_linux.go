package session

import (
	"os"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
)

func (r *run) emit(e event.Event) {
	if r.cfg.Events != nil {
		r.cfg.Events.Write(&e)
	}
}

// about sets the fields that all events of the session have.
func (r *run) about(e event.Event) event.Event {
	c := denials.Config{Session: r.number, Tool: r.cfg.Tool, Agent: r.cfg.Agent}
	return c.About(r.cfg.Policy, e)
}

// denialsConfig configures the events of this run.
func (r *run) denialsConfig() denials.Config {
	return denials.Config{
		Session: r.number, Policy: r.cfg.Policy, Tool: r.cfg.Tool, Agent: r.cfg.Agent, Mechanism: r.report.Backend, Others: r.seccompBackend(),
		Proxies: r.cfg.Proxies, Self: r.self, Events: r.cfg.Events, Warn: r.cfg.Notice,
	}
}

func (r *run) startEvent() event.Event {
	e := r.about(event.Event{Kind: event.SessionStart, Mechanism: r.report.Backend})
	e.Process = []event.Process{{PID: os.Getpid(), UID: os.Getuid(), Exe: r.cmd.Path, Argv: event.TruncateArgv(r.cfg.Argv)}}
	e.Degraded, e.Removed = degraded(r.report.Notes), r.result.RemovedEnv
	return e
}

func (r *run) endEvent() event.Event {
	e := r.about(event.Event{Kind: event.SessionEnd, Mechanism: r.report.Backend, Exit: r.exit()})
	if l := r.limit.Load(); l != nil {
		e.Reason, e.Rule, e.Place = string(policy.Limit), "limits."+l.name, l.position.String()
	}
	return e
}

// exit returns how the command ended; nil: it's running.
func (r *run) exit() *event.Exit {
	if r.last == nil {
		return nil
	}
	return exitEvent(r.last, &r.result, r.began, r.usage)
}
