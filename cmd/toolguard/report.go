package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolguard/toolguard/internal/api"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/session"
)

func newReport(a *app) *cobra.Command {
	var d daemonFlags
	var asJSON bool
	var file string
	cmd := &cobra.Command{
		Use:   "report SESSION",
		Short: "sum up a session: what it ran, how it ended, what was denied and what would allow it",
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
			s := summary{Session: id}
			if err := a.eachEvent(d.client(), id, file, s.add); err != nil {
				return err
			}
			if s.events == 0 {
				return errors.New("there is no event of such a session: 'toolguard events --since all --kind session_start' tells of those that there are")
			}
			return a.answer(asJSON, s.json(), func() { a.out.summary(&s) })
		},
	}
	cmd.Flags().StringVar(&file, "events", "", "sum up the events in `FILE`, as --format ocsf has them, or on standard input (-)")
	d.define(cmd)
	jsonFlag(cmd, &asJSON)
	return cmd
}

// eachEvent calls add for the events of a session that toolguardd has kept, or for those in a file.
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

// These bound what a report takes of memory, which the guarded would else choose: an event's line, in bytes, and how many different denials, and
// variables, are listed.
const (
	longestEvent = 2 << 20
	mostListed   = 1000
)

// summary is a session as its events tell of it.
type summary struct {
	Session string
	events  int
	start   *event.Event // nil: it isn't told any more
	end     *event.Event // nil: it runs, or its end isn't told
	policy  string
	tool    string
	agent   string
	owner   string
	result  session.Result
	at      map[string]int // where in the result a denial is
	others  uint64         // denials, and variables, that aren't listed

	executed, unrecorded uint64 // programs: that are told, and that gaps count
}

// add takes the next event in. Those of no session, and those of others, are none of it.
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
	}{{&s.policy, e.Policy}, {&s.tool, e.Tool}, {&s.agent, e.Agent}, {&s.owner, e.Owner}} {
		if f.new != "" {
			*f.is = f.new
		}
	}
	switch e.Kind {
	case event.SessionStart:
		s.start = e
		n := min(len(e.Removed), mostListed-len(s.result.RemovedEnv))
		s.result.RemovedEnv = append(s.result.RemovedEnv, e.Removed[:n]...)
		s.others += uint64(len(e.Removed) - n)
	case event.SessionEnd, event.Refused:
		s.end = e
	case event.Denial:
		s.denied(e)
	case event.Exec:
		s.executed++
	case event.Gap:
		s.unrecorded += e.Execs
		if lost, ok := e.LostDenials(); ok {
			s.result.Lost += lost
			s.result.WhyLost = e.Extra["why"]
		}
	}
	return nil
}

// denied counts a denial; those that are alike are one.
func (s *summary) denied(e *event.Event) {
	n, r := max(1, e.Count), &s.result
	switch {
	case e.Resource == "env" && len(r.RemovedEnv) == mostListed:
		s.others += n
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
	if len(r.Denials) == mostListed {
		s.others += n
		return
	}
	if s.at == nil {
		s.at = map[string]int{}
	}
	s.at[key] = len(r.Denials)
	kind := *e
	kind.Process = nil // it's that of the first one only, and the longest part
	r.Denials = append(r.Denials, session.Denial{Event: kind, Count: n})
}

// argv is the command.
func (s *summary) argv() []string {
	if s.start == nil || len(s.start.Process) == 0 {
		return nil
	}
	return s.start.Process[0].Argv
}

type summaryReport struct {
	Session  string          `json:"session"`
	Owner    string          `json:"owner,omitempty"`
	Tool     string          `json:"tool,omitempty"`
	Agent    string          `json:"agent,omitempty"`
	Argv     []string        `json:"argv,omitempty"`
	Policy   string          `json:"policy"`
	Started  *time.Time      `json:"started,omitempty"`
	Ended    *time.Time      `json:"ended,omitempty"`
	Exit     *exitReport     `json:"exit,omitempty"`
	Degraded []string        `json:"degraded,omitempty"`
	Total    uint64          `json:"total"` // denials, repetitions included
	Gaps     uint64          `json:"gaps"`  // of what the policy allows: the backend denies too much
	Lost     uint64          `json:"lost"`  // denials that no event tells
	WhyLost  string          `json:"why_lost,omitempty"`
	Env      []string        `json:"removed_env,omitempty"`
	Denials  []summaryDenial `json:"denials"`
	Others   uint64          `json:"others,omitempty"` // denials and variables beyond those that are listed

	Executed   uint64 `json:"executed,omitempty"`   // programs that events tell of
	Unrecorded uint64 `json:"unrecorded,omitempty"` // programs that gaps count
}

type exitReport struct {
	Code   int    `json:"code"`
	Signal int    `json:"signal,omitempty"`
	WallMS int64  `json:"wall_ms"`
	MaxRSS uint64 `json:"max_rss,omitempty"`

	Usage *event.Usage `json:"usage,omitempty"`
}

type summaryDenial struct {
	Resource   string `json:"resource"`
	Capability string `json:"capability"`
	Target     string `json:"target"`
	Reason     string `json:"reason"`
	Rule       string `json:"rule,omitempty"`
	Place      string `json:"place,omitempty"`
	Suggest    string `json:"suggest,omitempty"`
	Count      uint64 `json:"count"`
}

func (s *summary) json() summaryReport {
	r := s.result
	j := summaryReport{
		Session: s.Session, Owner: s.owner, Tool: s.tool, Agent: s.agent, Argv: s.argv(), Policy: s.policy,
		Total: r.Total, Gaps: r.More, Lost: r.Lost, WhyLost: r.WhyLost, Env: r.RemovedEnv, Denials: []summaryDenial{}, Others: s.others,
		Executed: s.executed, Unrecorded: s.unrecorded,
	}
	if s.start != nil {
		j.Started, j.Degraded = &s.start.Time, s.start.Degraded
	}
	if s.end != nil {
		j.Ended = &s.end.Time
		if x := s.end.Exit; x != nil {
			j.Exit = &exitReport{x.Code, x.Signal, x.Wall.Milliseconds(), x.MaxRSS, x.Usage}
		}
	}
	for _, d := range r.Denials {
		j.Denials = append(j.Denials, summaryDenial{d.Resource, d.Capability, d.Target, d.Reason, d.Rule, d.Place, d.Suggest, d.Count})
	}
	return j
}

// ending says how the session ended.
func (s *summary) ending() string {
	switch {
	case s.end != nil && s.end.Kind == event.Refused:
		return "not started: " + s.end.Extra["why"]
	case s.end == nil:
		return "not told: it runs, or what came last is lost"
	case s.end.Exit == nil || s.end.Exit.Code < 0:
		return "nobody saw how"
	case s.end.Exit.Signal != 0:
		return "signal " + strconv.Itoa(s.end.Exit.Signal)
	}
	return "exit status " + strconv.Itoa(s.end.Exit.Code)
}
