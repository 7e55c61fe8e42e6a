package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session/denials"
)

func newReport(a *app) *cobra.Command {
	var d daemonFlags
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "report SESSION",
		Short: "sum up a session: its command, its end, its denials and rules that would allow them",
		Long: `toolguard report: sum up a session from the events that toolguardd has kept of it, while it runs or after its end. You
see your own sessions, root sees all: 'toolguard events --since 1d --kind session_start' lists them. With --events it's
summed up from a file that 'toolguard exec --events' has written.`,
		Example: `  toolguard report 40b8dd0b28f61937
  toolguard report 40b8dd0b28f61937 --json | jq .denials
  toolguard report --events ../events.jsonl`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && file == "" {
				return usagef(cmd, "name one session, by its id")
			}
			return nil
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return d.ids(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			id := append(args, "")[0]
			s := summary{Summary: output.Summary{Session: id}}
			if err := a.eachEvent(d.client(), id, file, s.add); err != nil {
				return err
			}
			if s.events == 0 {
				return errors.New("there is no event of such a session: 'toolguard events --since all --kind session_start' lists the sessions")
			}
			return a.answer(asJSON, output.SummaryJSON(&s.Summary), func() { a.out.Summary(&s.Summary) })
		},
	}
	cmd.Flags().StringVar(&file, "events", "", "sum up the events in `FILE`, as --format ocsf has them, or on standard input (-)")
	d.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// eachEvent calls add for the events of a session in toolguardd's audit, or for those in a file.
func (a *app) eachEvent(c *api.Client, id, file string, add func(*event.Event) error) error {
	var from io.Reader
	switch file {
	case "-":
		from = a.in
	case "":
		s, err := c.Follow(api.Events + "?" + url.Values{"format": {"ocsf"}, "session": {id}, "since": {"1970-01-01T00:00:00Z"}}.Encode())
		if err != nil {
			return err
		}
		defer s.Close()
		from = s.Body()
	default:
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		from = f
	}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, longestEvent)
	for n := 1; lines.Scan(); n++ {
		e, err := event.Parse(lines.Bytes())
		if err == nil {
			err = add(&e)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read the events, of which some are missing: %w", err)
	}
	return nil
}

// longestEvent is how long the line of an event may be, in bytes: the confined command chooses how long its events are.
const longestEvent = 2 << 20

// summary collects a session's events.
type summary struct {
	output.Summary
	events int
	at     map[string]int // where in the result a denial is
}

// add adds the next event. It ignores events of no session and of other sessions.
func (s *summary) add(e *event.Event) error {
	if e.Session == "" || s.Session != "" && e.Session != s.Session {
		return nil
	}
	if s.Session == "" {
		s.Session = e.Session
	}
	s.events++
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
		n := min(len(e.Removed), output.MostListed-len(s.Result.RemovedEnv))
		s.Result.RemovedEnv = append(s.Result.RemovedEnv, e.Removed[:n]...)
		s.Others += uint64(len(e.Removed) - n)
	case event.SessionEnd, event.SessionRefused:
		s.End = e
	case event.Denial:
		s.denied(e)
	case event.Exec:
		s.Executed++
	case event.Gap:
		s.Unrecorded += e.Execs
		if lost, ok := e.LostDenials(); ok {
			s.Result.Lost += lost
			s.Result.WhyLost = e.Extra["why"]
		}
	}
	return nil
}

// denied counts a denial; similar ones share an entry.
func (s *summary) denied(e *event.Event) {
	n, r := max(1, e.Count), &s.Result
	switch {
	case e.Resource == "env" && len(r.RemovedEnv) == output.MostListed:
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
	if len(r.Denials) == output.MostListed {
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
