package output

import (
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session"
)

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
	Lost     uint64          `json:"lost"`  // denials without an event
	WhyLost  string          `json:"why_lost,omitempty"`
	Env      []string        `json:"removed_env,omitempty"`
	Denials  []summaryDenial `json:"denials"`
	Others   uint64          `json:"others,omitempty"` // denials and variables beyond those that are listed

	Calls *callsReport `json:"calls,omitempty"` // not there without calls

	Executed   uint64 `json:"executed,omitempty"`   // programs that events name
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

// SummaryJSON is the answer of report.
func SummaryJSON(s *session.Summary) summaryReport {
	r := s.Result
	j := summaryReport{
		Session: s.Session, Owner: s.Owner, Tool: s.Tool, Agent: s.Agent, Argv: s.Argv(), Policy: s.Policy,
		Total: r.Total, Gaps: r.More, Lost: r.Lost, WhyLost: r.WhyLost, Env: r.RemovedEnv, Denials: []summaryDenial{}, Others: s.Others,
		Executed: s.Executed, Unrecorded: s.Unrecorded,
	}
	if s.Start != nil {
		j.Started, j.Degraded = &s.Start.Time, s.Start.Degraded
	}
	if s.End != nil {
		j.Ended = &s.End.Time
		if x := s.End.Exit; x != nil {
			j.Exit = &exitReport{x.Code, x.Signal, x.Wall.Milliseconds(), x.MaxRSS, x.Usage}
		}
	}
	if s.Calls.Any() {
		j.Calls = callsJSON(&s.Calls)
	}
	for _, d := range r.Denials {
		j.Denials = append(j.Denials, summaryDenial{d.Resource, d.Capability, d.Target, d.Reason, d.Rule, d.Place, d.Suggest, d.Count})
	}
	return j
}
