package tool

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/gate"
	"github.com/toolguard/toolguard/internal/tool/schema"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// Invisible is the error of a tool that its caller doesn't see: nothing runs it on the caller's behalf.
type Invisible struct {
	Tool    string
	Removed *visibility.Removal
}

func (e *Invisible) Error() string {
	text := fmt.Sprintf("tool %s isn't available: %s: %s", e.Tool, e.Removed.Stage, e.Removed.Why())
	if r := e.Removed.Rule; r.ID != "" {
		text += fmt.Sprintf(" (%s at %s)", r.ID, r.At)
	}
	return text + "; a person can still run a command with the grants of this tool: toolguard exec --tool " + e.Tool + " -- COMMAND, without --agent"
}

// Visible returns an *Invisible if the caller doesn't see a tool.
func Visible(set *toolset.Set, caller visibility.Caller, name string) error {
	if removed := visibility.Explain(set, caller, nil, name).Removed; removed != nil {
		return &Invisible{name, removed}
	}
	return nil
}

// NotRun is the error of a call that doesn't run, for a reason that isn't an error of the policy, of this machine or of this program.
type NotRun struct {
	Answer *gate.Answer
	text   string // for the caller
}

func (e *NotRun) Error() string { return e.text }

// Local takes a call of a local tool through its life up to its start, and returns the command line that it runs. The error is why it doesn't run,
// a *NotRun if the call is denied. Nobody is asked: a call that needs an approval doesn't run.
func (e *Engine) Local(c *gate.Call, caller visibility.Caller) ([]string, error) {
	if removed := visibility.Explain(e.Set, caller, nil, c.Tool).Removed; removed != nil {
		return nil, &NotRun{invisible(c, removed), (&Invisible{c.Tool, removed}).Error()}
	}
	s := e.Settings(c)
	if s.Command == nil || s.Source != "local" {
		why := fmt.Sprintf("there is no local tool %s, as no [tools] table for it has a command%s", c.Tool, localNames(e.Set))
		return nil, &NotRun{gate.Denied(c, gate.ReasonNotVisible, nil, why), why}
	}
	a, err := e.Answer(c)
	switch {
	case err != nil:
		return nil, err
	case a.Decision == gate.Ask:
		const text = "tool %s isn't run: a person has to approve the call%s: %s; the calls API of a session asks (POST /v1/calls)"
		return nil, &NotRun{a, fmt.Sprintf(text, c.Tool, at(a.Rule), a.Message)}
	case a.Decision != gate.Allow:
		return nil, &NotRun{a, fmt.Sprintf("tool %s isn't run%s: %s", c.Tool, at(a.Rule), a.Message)}
	case a.Arguments != nil:
		c.Arguments = a.Arguments
	}
	of := schema.Default(s.Command)
	if s.Schema != nil {
		if of, err = schema.Parse(s.Schema.Text); err != nil {
			return nil, err
		}
	}
	return of.Argv(s.Command, c.Arguments)
}

// at is where the rule of an answer is.
func at(r *gate.Rule) string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf(" (%s at %s)", r.ID, r.At)
}

// localNames names the local tools of a policy, for a message.
func localNames(set *toolset.Set) string {
	var names []string
	for _, l := range set.Layers {
		for _, t := range l.Tools {
			if t.Command != nil && !slices.Contains(names, t.Pattern.Text) {
				names = append(names, t.Pattern.Text)
			}
		}
	}
	if slices.Sort(names); len(names) == 0 {
		return ""
	}
	return "; local tools are " + strings.Join(names[:min(len(names), 20)], ", ")
}
