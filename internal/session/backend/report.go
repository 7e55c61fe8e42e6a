package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// Report is what a backend would enforce of a policy: the enforceability report.
type Report struct {
	Backend  string
	Rows     []policy.Enforceability // all rules, in the order of the policy
	Gaps     []string                // the stated gaps of the backend
	Blocking []policy.Enforceability // rows that aren't enforced, which prevents the start
	Notes    []policy.Enforceability // rows that aren't enforced, which the user or the policy allows
	Skipped  bool                    // a backend that enforces more is set up here, and couldn't be used
	Instead  string                  // how to get a backend that enforces more; "": unknown
	Masked   bool                    // a wrapper would protect what exists of the files that protect and secrets name
	Passed   []string                // why other backends, which "auto" prefers or tries as well, weren't chosen
	Denials  bool                    // of a run: denials are reported

	unseen func(explain.Question) string // see Backend
}

// ReportFor reports the enforceability of c by the named backend ("auto": the best one) on this machine. toolguardd must ("require"), may
// ("auto") or may not ("none") be used. Rules named in allowDegraded, or by the policy itself, need not be enforced. A name that isn't in the
// report is an error.
func ReportFor(c *policy.Compiled, backend, daemon string, allowDegraded []string) (Report, error) {
	b, err := Choose(backend, daemon, AskDaemon)
	if err != nil {
		return Report{}, err
	}
	rep, err := ReportBest(&b, c, backend, daemon, allowDegraded)
	b.Network.close()
	return rep, err
}

// ReportBest is ReportWith. If "auto" has chosen b, and b can't enforce c, it replaces b by the first of the others that can.
func ReportBest(b *Backend, c *policy.Compiled, name, daemon string, allowDegraded []string) (Report, error) {
	rep, err := ReportWith(b, c, name, daemon, allowDegraded)
	if err != nil || len(rep.Blocking) == 0 && !slices.ContainsFunc(rep.Notes, isAllowed) {
		return rep, err
	}
	for _, find := range b.Others {
		other, err := find()
		if err != nil {
			rep.Passed = append(rep.Passed, err.Error())
			continue
		}
		better, err := ReportWith(&other, c, name, daemon, allowDegraded)
		if err == nil && len(better.Blocking) == 0 && better.unenforced() <= rep.unenforced() {
			better.Passed = append(append(better.Passed, cannot(&rep)), rep.Passed...)
			other.Skipped = b.Skipped
			b.Network.close()
			*b = other
			return better, nil
		}
		if err == nil {
			rep.Passed = append(rep.Passed, cannot(&better))
		}
	}
	return rep, nil
}

// isAllowed reports whether a row that isn't enforced would prevent the start if the user or the policy didn't allow it.
func isAllowed(row policy.Enforceability) bool { return !row.Advisory }

// unenforced counts the rules that aren't enforced at all, or have no effect on what exists.
func (r *Report) unenforced() (n int) {
	for _, row := range slices.Concat(r.Blocking, r.Notes) {
		if row.Status == policy.NotEnforceable {
			n++
		}
	}
	return n
}

// cannot names the first rule that a backend doesn't enforce.
func cannot(r *Report) string {
	first := slices.Concat(r.Blocking, r.Notes)[0]
	return fmt.Sprintf("%s can't enforce %s: %s", r.Backend, first.ID, first.Why)
}

// ReportWith is ReportFor with a backend that has been chosen.
func ReportWith(b *Backend, c *policy.Compiled, name, daemon string, allowDegraded []string) (Report, error) {
	rep := Report{Backend: b.name, Gaps: b.gaps, unseen: b.unseen, Rows: append(b.report(b, c), reportTools(c)...)}
	allowed := slices.Clone(allowDegraded)
	for _, l := range c.Layers {
		for _, d := range l.Degraded {
			allowed = append(allowed, d.ID)
		}
	}
	for _, id := range allowed {
		if !slices.ContainsFunc(rep.Rows, func(r policy.Enforceability) bool { return r.ID == id || Kind(r.ID) == id }) {
			return Report{}, fmt.Errorf("%q isn't a rule of this policy: --dry-run prints the IDs", id)
		}
	}
	for _, row := range rep.Rows {
		switch {
		case row.Status == policy.Enforced:
		case row.Advisory || slices.Contains(allowed, row.ID) || slices.Contains(allowed, Kind(row.ID)):
			rep.Notes = append(rep.Notes, row)
		default:
			rep.Blocking = append(rep.Blocking, row)
		}
	}
	rep.Skipped = b.Skipped != nil
	byBackend := func(r policy.Enforceability) bool { return r.By != ByExec }
	if rep.Skipped || slices.ContainsFunc(rep.Blocking, byBackend) || slices.ContainsFunc(rep.Notes, byBackend) {
		rep.Instead = instead(b, name, daemon)
		rep.Masked = b.name == "landlock" && protectsMore(rep.Notes)
	}
	return rep, nil
}

// Kind returns the ID that the rules of protect, of secrets, and those for toolguard's own files have in common, or the ID itself: "protect" for
// "protect.3", "host.protect" for "host.protect.3".
func Kind(id string) string {
	i := max(strings.LastIndexByte(id, '.'), 0)
	if slices.Contains([]string{"protect", "secrets", "toolguard"}, id[strings.LastIndexByte(id[:i], '.')+1:i]) {
		return id[:i]
	}
	return id
}

// The By of the tool layer's keys. No backend would enforce those that exec doesn't.
const (
	ByExec  = "exec"
	ByCalls = "exec, on the calls that a host submits"
)

// reportTools returns the rows of the tool layer's keys.
func reportTools(c *policy.Compiled) (rows []policy.Enforceability) {
	for _, k := range c.ToolKeys {
		row := policy.Enforceability{ID: k.ID, Position: k.Position, Status: policy.Enforced, By: ByCalls}
		if !k.OnCalls() {
			row.Status, row.By, row.Why = policy.NotEnforceable, ByExec, "no backend gives a process another policy when it executes a program: docs/tools.md"
		}
		rows = append(rows, row)
	}
	return rows
}
