package manifest

import (
	"slices"
	"testing"

	"github.com/toolguard/toolguard/internal/event"
)

// A program that isn't listed is a use of a command, also where the kernel denied the execution of its file.
func TestUsesOfPrograms(t *testing.T) {
	e := event.Event{Kind: event.Denial, Resource: "fs", Capability: "execute", Target: "/usr/bin/dash", Count: 1}
	for reason, want := range map[string]string{
		"command_not_listed": "commands run", "args_not_listed": "commands run", "no_rule": "fs execute",
	} {
		e.Reason = reason
		uses := Uses(&e)
		if len(uses) != 1 || uses[0].Resource+" "+uses[0].Action != want || (want == "commands run") != slices.Equal(uses[0].Argv, []string{e.Target}) {
			t.Errorf("%s: %+v", reason, uses)
		}
	}
}
