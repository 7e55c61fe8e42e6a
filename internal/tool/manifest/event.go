package manifest

import (
	"strings"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
)

// Uses returns what an event reports as used; nil for an event about something else.
func Uses(e *event.Event) (uses []Use) {
	u := Use{Tool: e.Tool, Agent: e.Agent, Resource: e.Resource, Action: e.Capability, Target: e.Target, Count: e.Count}
	switch e.Kind {
	case event.ToolCall:
		return []Use{{Tool: e.Target, Agent: e.Agent, Call: true}}
	case event.Exec:
		u.Resource, u.Action, u.Argv = "command", "run", argvOf(e)
		return []Use{u}
	case event.Denial:
	default:
		return nil
	}
	resource := e.Resource
	if r := policy.Reason(e.Reason); r == policy.CommandNotListed || r == policy.ArgsNotListed { // which a backend may deny as an execution of a file
		resource, u.Resource = policy.Commands.String(), policy.Commands.String()
	}
	switch resource {
	case policy.Commands.String():
		u.Action, u.Argv = "run", argvOf(e)
	case policy.Net.String():
		if e.Capability != "listen" {
			u.Action = "connect"
		}
		if m := e.Extra["method"]; m != "" {
			u.Action = m
		}
	case policy.Env.String():
		u.Action = "read"
	case policy.FS.String():
		for action := range strings.SplitSeq(e.Capability, "+") {
			u.Action = action
			uses = append(uses, u)
			u.Count = 1 // the event is one use
		}
		return uses
	default:
		return nil
	}
	return []Use{u}
}

// argvOf returns the command of an event, with the executed file as its program.
func argvOf(e *event.Event) []string {
	if len(e.Process) == 0 || len(e.Process[0].Argv) == 0 || e.Process[0].Exe != e.Target {
		return []string{e.Target}
	}
	return append([]string{e.Target}, e.Process[0].Argv[1:]...)
}
