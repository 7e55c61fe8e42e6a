package session

import (
	"cmp"
	"fmt"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// MostListed is how many different denials, and variables, a summary lists: the confined command chooses how many there are.
const MostListed = 1000

// Summary is a session as its events describe it.
type Summary struct {
	Session string       // the id; "" is that of the first event that has one
	Events  int          // of the session
	Start   *event.Event // nil: it isn't kept any more
	End     *event.Event // nil: the session runs, or the event is lost
	Policy  string
	Tool    string
	Agent   string
	Owner   string
	Result  Result
	Others  uint64 // denials, and variables, that aren't listed
	Calls   Calls

	Executed, Unrecorded uint64 // programs: those that events report, and those that gaps count

	at map[string]int // where in the result a denial is
}

// Argv is the command, nil where it's unknown.
func (s *Summary) Argv() []string {
	if s.Start == nil || len(s.Start.Process) == 0 {
		return nil
	}
	return s.Start.Process[0].Argv
}

// Add adds the next event. It ignores events of no session and of other sessions.
func (s *Summary) Add(e *event.Event) {
	if e.Session == "" || s.Session != "" && e.Session != s.Session {
		return
	}
	s.Session = cmp.Or(s.Session, e.Session)
	s.Events++
	for _, f := range []struct {
		is  *string
		new string
	}{{&s.Policy, e.Policy}, {&s.Tool, e.Tool}, {&s.Agent, e.Agent}, {&s.Owner, e.Owner}} {
		if f.new != "" {
			*f.is = f.new
		}
	}
	switch e.Kind {
	case event.SessionStart:
		s.Start = e
		n := min(len(e.Removed), MostListed-len(s.Result.RemovedEnv))
		s.Result.RemovedEnv = append(s.Result.RemovedEnv, e.Removed[:n]...)
		s.Others += uint64(len(e.Removed) - n)
	case event.SessionEnd, event.SessionRefused:
		s.End = e
	case event.Denial:
		s.denied(e)
	case event.ToolCall, event.ToolDeny, event.HookFailed, event.Approval, event.Grant:
		s.Calls.add(e)
	case event.Exec:
		s.Executed++
	case event.Gap:
		s.Unrecorded += e.Execs
		if lost, ok := e.LostDenials(); ok {
			s.Result.Lost += lost
			s.Result.WhyLost = e.Extra["why"]
		}
	}
}

// denied counts a denial; similar ones share an entry.
func (s *Summary) denied(e *event.Event) {
	n, r := max(1, e.Count), &s.Result
	switch {
	case e.Resource == "env" && len(r.RemovedEnv) == MostListed:
		s.Others += n
		return
	case e.Resource == "env":
		r.RemovedEnv = append(r.RemovedEnv, e.Target)
		return
	case e.Reason == string(policy.EngineError):
		r.More += n
		return
	}
	r.Total += n
	key := fmt.Sprintf("%q", []string{e.Resource, e.Capability, e.Target, e.Reason, e.Rule})
	if i, ok := s.at[key]; ok {
		r.Denials[i].Count += n
		return
	}
	if len(r.Denials) == MostListed {
		s.Others += n
		return
	}
	if s.at == nil {
		s.at = map[string]int{}
	}
	s.at[key] = len(r.Denials)
	kind := *e
	kind.Process = nil // it's that of the first one only, and the longest part
	r.Denials = append(r.Denials, denials.Denial{Event: kind, Count: n})
}
