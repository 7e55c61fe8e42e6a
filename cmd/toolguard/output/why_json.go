package output

import (
	"cmp"
	"time"

	"github.com/toolguard/toolguard/internal/userfiles"
)

type runReport struct {
	Time      time.Time      `json:"time"`
	Argv      []string       `json:"argv"`
	Workspace string         `json:"workspace"`
	Policy    string         `json:"policy"`
	Policies  []string       `json:"policies"`
	Code      int            `json:"code"`
	Total     uint64         `json:"total"`
	Env       []string       `json:"removed_env,omitempty"`
	Unseen    string         `json:"unseen,omitempty"` // why others can't be seen; left out where all were
	Denials   []denialReport `json:"denials"`
}

type denialReport struct {
	N          int    `json:"n"`
	Resource   string `json:"resource"`
	Capability string `json:"capability"`
	Target     string `json:"target"`
	Reason     string `json:"reason"`
	Rule       string `json:"rule,omitempty"`
	Place      string `json:"place,omitempty"`
	Note       string `json:"note,omitempty"`
	Advice     string `json:"advice,omitempty"`
	Suggest    string `json:"suggest,omitempty"`
	Count      uint64 `json:"count"`
}

type whyReport struct {
	denialReport
	Explanation *Explanation `json:"explanation"` // null where no rule is about it
}

// RunJSON is the stored record of a run.
func RunJSON(r *userfiles.Run) runReport {
	j := runReport{r.Time, r.Argv, r.Workspace, r.Policy, append([]string{}, r.Flags.Policies...), r.Code, r.Total, r.Removed, r.Unseen, []denialReport{}}
	for i := range r.Denials {
		j.Denials = append(j.Denials, denialJSON(i+1, &r.Denials[i]))
	}
	return j
}

// WhyJSON is a denial of a run, and why it was denied; nil where no rule is about it.
func WhyJSON(n int, d *userfiles.Denial, why *Explanation) any {
	return whyReport{denialJSON(n, d), why}
}

func denialJSON(n int, d *userfiles.Denial) denialReport {
	note := cmp.Or(d.Extra["why"], d.Extra["note"])
	return denialReport{n, d.Resource, d.Capability, d.Target, d.Reason, d.Rule, d.Place, note, d.Extra["advice"], d.Suggest, d.Count}
}
