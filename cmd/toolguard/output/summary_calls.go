package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/session"
)

// mostCalls is how many denied calls, and approvals, a summary shows.
const mostCalls = 20

// callCounts describes a session's calls in a few words.
func callCounts(x *session.Calls) string {
	ran := fmt.Sprintf("%d ran", x.Ran)
	if x.Failed > 0 {
		ran += fmt.Sprintf(" (%d of them with an error)", x.Failed)
	}
	parts := []string{ran, fmt.Sprintf("%d denied", x.Denied)}
	if x.HookFailures > 0 {
		parts = append(parts, Count(x.HookFailures, "failed hook"))
	}
	return strings.Join(parts, ", ")
}

// calls shows which calls were denied, and who decided about requests.
func (s *Screen) calls(x *session.Calls) {
	var denied, decided [][]cell
	for _, d := range x.Denials[:min(len(x.Denials), mostCalls)] {
		why := d.Reason
		if d.Rule != "" {
			why = d.Rule + ", " + d.Place
		}
		denied = append(denied, []cell{cs(bold, d.Tool), c(why), cs(bold, times(d.Count)), cs(faint, d.Message)})
	}
	for _, a := range x.Approvals[:min(len(x.Approvals), mostCalls)] {
		decided = append(decided, []cell{cs(bold, approvalState(&a)), c(approvalAbout(&a)), c(approvalBy(&a)), cs(faint, a.Effect)})
	}
	for _, part := range []struct {
		title string
		rows  [][]cell
		all   int
	}{{"calls that were denied", denied, len(x.Denials)}, {"requests to a person", decided, len(x.Approvals)}} {
		if part.all == 0 {
			continue
		}
		s.line("%s", part.title)
		s.table("  ", part.rows)
		if rest := part.all - len(part.rows); rest > 0 {
			s.line("  … and %d more (--json has them)", rest)
		}
	}
	if x.Others > 0 {
		s.line("  and %d more, beyond the first %d: the events have them", x.Others, session.MostListed)
	}
}

// approvalState is what has become of a request.
func approvalState(a *session.Approval) string {
	switch {
	case a.Decision != "":
		return a.Decision
	case a.What == event.Requested:
		return "open"
	}
	return a.What
}

func approvalAbout(a *session.Approval) string {
	if a.Grant {
		return "grant of " + a.About
	}
	return "call of " + a.About
}

// approvalBy describes who decided.
func approvalBy(a *session.Approval) string {
	var parts []string
	if a.By != nil {
		if a.By.UID >= 0 {
			parts = append(parts, "user "+strconv.Itoa(a.By.UID))
		}
		if a.By.Exe != "" || a.By.PID > 0 {
			parts = append(parts, fmt.Sprintf("%s[%d]", a.By.Exe, a.By.PID))
		}
	}
	if a.Via != "" {
		parts = append(parts, "via "+a.Via)
	}
	if len(parts) == 0 {
		return ""
	}
	who := strings.Join(parts, ", ")
	if a.By == nil {
		return who
	}
	return "by " + who
}

type callsReport struct {
	Ran          uint64           `json:"ran"`
	Failed       uint64           `json:"failed"` // of those that ran
	Denied       uint64           `json:"denied"`
	HookFailures uint64           `json:"hook_failures"`
	Denials      []callDenial     `json:"denials"`
	Approvals    []approvalReport `json:"approvals"`
	Others       uint64           `json:"others,omitempty"`
}

type callDenial struct {
	Tool    string `json:"tool"`
	Reason  string `json:"reason"`
	Rule    string `json:"rule,omitempty"`
	Place   string `json:"place,omitempty"`
	Message string `json:"message,omitempty"`
	Count   uint64 `json:"count"`
}

type approvalReport struct {
	ID         string      `json:"id"`
	Kind       string      `json:"kind"`  // approval or grant
	About      string      `json:"about"` // the tool, or what the grant is for
	State      string      `json:"state"`
	Decision   string      `json:"decision,omitempty"`
	Effect     string      `json:"effect,omitempty"`
	Time       time.Time   `json:"time"`
	ResolvedBy *resolvedBy `json:"resolved_by,omitempty"`
}

type resolvedBy struct {
	UID *int   `json:"uid,omitempty"` // not there if it's unknown
	PID int    `json:"pid,omitempty"`
	Exe string `json:"exe,omitempty"`
	Via string `json:"via,omitempty"`
}

func callsJSON(x *session.Calls) *callsReport {
	j := &callsReport{
		Ran: x.Ran, Failed: x.Failed, Denied: x.Denied, HookFailures: x.HookFailures, Others: x.Others,
		Denials: []callDenial{}, Approvals: []approvalReport{},
	}
	for _, d := range x.Denials {
		j.Denials = append(j.Denials, callDenial(d))
	}
	for _, a := range x.Approvals {
		r := approvalReport{ID: a.ID, Kind: string(event.Approval), About: a.About, State: a.What, Decision: a.Decision, Effect: a.Effect, Time: a.Time}
		if a.Grant {
			r.Kind = string(event.Grant)
		}
		if a.By != nil || a.Via != "" {
			r.ResolvedBy = &resolvedBy{Via: a.Via}
		}
		if a.By != nil {
			r.ResolvedBy.PID, r.ResolvedBy.Exe = a.By.PID, a.By.Exe
			if a.By.UID >= 0 {
				r.ResolvedBy.UID = &a.By.UID
			}
		}
		j.Approvals = append(j.Approvals, r)
	}
	return j
}
