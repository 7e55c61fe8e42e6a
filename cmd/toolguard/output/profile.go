package output

import (
	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/policy"
)

// profile is the answer of policy render.
type profile struct {
	Backend string            `json:"backend"`
	Profile string            `json:"profile"`
	Params  map[string]string `json:"params"`
	Report  []profileRow      `json:"report"`
}

type profileRow struct {
	Rule   string `json:"rule"`
	File   string `json:"file"`
	Line   int    `json:"line"`
	Status string `json:"status"`
	Why    string `json:"why"`            // "" if it's enforced
	Note   string `json:"note,omitempty"` // where the backend denies more than the rule
}

// ProfileJSON returns a Seatbelt profile with its parameters and its report.
func ProfileJSON(p *darwin.Profile) profile {
	j := profile{"seatbelt", p.Text, map[string]string{}, []profileRow{}}
	for _, x := range p.Params {
		j.Params[x.Name] = x.Value
	}
	for _, r := range p.Report {
		row := profileRow{r.ID, r.Position.File, r.Position.Line, r.Status.String(), r.Why, ""}
		if r.Status == policy.Enforced {
			row.Why, row.Note = "", r.Why
		}
		j.Report = append(j.Report, row)
	}
	return j
}
