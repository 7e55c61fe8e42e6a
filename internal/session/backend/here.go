package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// Here is how this machine enforces a decision.
type Here struct {
	Status     policy.Status // how far the decision is enforced
	Stricter   bool          // an allowed operation may be denied, for the reason Why
	By         string        // the mechanism; "": none
	Why        string        // what is missing or stricter; "": the decision is enforced exactly
	StartError string        // why no command starts under this policy; "": one does
	Backend    string        // "": no backend can be used
	Instead    string        // how to get a backend that enforces more
}

// Here returns how the backend enforces an answer to q. layers returns the decision of each authority (explain.Explanation). It is called only if
// the denial isn't enforced for the authority of the answer: another authority's may be.
func (r *Report) Here(q explain.Question, a explain.Answer, layers func() []explain.LayerExplanation) Here {
	if q.Resource == policy.FS {
		q.Target = a.Target
	}
	h := r.decided(q, a.Decision == "allow", a.Authority, a.Rule)
	if h.Status != policy.Enforced && a.Decision != "allow" {
		for _, l := range layers() {
			if other := r.decided(q, l.Allow, l.Authority, l.Winner()); !l.Allow && other.Status > h.Status {
				h = other
			}
		}
	}
	h.StartError, h.Backend, h.Instead = r.startError(a.Rule), r.Backend, r.Instead
	return h
}

// decided returns how an authority's decision by a rule, or (nil) a default, is enforced.
func (r *Report) decided(q explain.Question, allow bool, by policy.Authority, rule *policy.Rule) Here {
	h := Here{Status: policy.Enforced, By: r.Backend}
	if q.Resource == policy.Env {
		h.By = "env"
	}
	if !allow && r.unseen != nil {
		if why := r.unseen(q); why != "" {
			return Here{Status: policy.NotEnforceable, Why: why}
		}
	}
	row := r.findRow(func(row *policy.Enforceability) bool { return row.Rule == rule && rule != nil })
	if !allow && (row == nil || row.Status == policy.Enforced) {
		if wider := r.findRow(func(row *policy.Enforceability) bool { return exceeds(row, q, by) }); wider != nil {
			return Here{Status: policy.Partly, By: wider.By, Why: wider.ID + ": " + wider.Why}
		}
	}
	if row == nil || allow && row.Opens != "" {
		return h
	}
	h.Status, h.Stricter, h.By = row.Status, row.Stricter && allow, row.By
	if h.Status != policy.Enforced || h.Stricter {
		h.Why = row.Why
	}
	return h
}

func (r *Report) findRow(match func(*policy.Enforceability) bool) *policy.Enforceability {
	i := slices.IndexFunc(r.Rows, func(row policy.Enforceability) bool { return match(&row) })
	if i < 0 {
		return nil
	}
	return &r.Rows[i]
}

// exceeds reports whether a row is for a grant of an authority that allows more here than its rule, possibly the operation of the question.
func exceeds(row *policy.Enforceability, q explain.Question, by policy.Authority) bool {
	rule := row.Rule
	if row.Status == policy.Enforced || rule == nil || rule.Resource != q.Resource || rule.Authority != by {
		return false
	}
	switch q.Resource {
	case policy.FS:
		inOpened := strings.HasPrefix(q.Target+"/", row.Opens+"/")
		return row.Status == policy.Partly && (!row.Advisory || row.Opens != "" && inOpened) && rule.FS.Caps&q.Caps != 0
	case policy.Net:
		t, err := q.NetTarget()
		return err == nil && rule.Net.Allow && rule.Net.Listen == q.Listen && (rule.Net.Port == 0 || t.Port == 0 || int(t.Port) == int(rule.Net.Port))
	}
	return true
}

// startError returns why a command wouldn't start, for rule if it is one of the reasons; "" if the command would start.
func (r *Report) startError(rule *policy.Rule) string {
	if len(r.Blocking) == 0 {
		return ""
	}
	first := r.Blocking[max(0, slices.IndexFunc(r.Blocking, func(row policy.Enforceability) bool { return rule != nil && row.Rule == rule }))]
	text := fmt.Sprintf("%s can't enforce %s (%s): %s", r.Backend, first.ID, first.Position, first.Why)
	if n := len(r.Blocking) - 1; n > 0 {
		text += fmt.Sprintf("; nor %d more (exec --dry-run lists them)", n)
	}
	return text
}

// Warnings returns the rules that the backend doesn't enforce exactly, in the order of the policy. Built-in rules with the same warning are one
// entry.
func (r *Report) Warnings() (out []explain.Warning) {
	for i := 0; i < len(r.Rows); {
		row, n := r.Rows[i], 1
		for i++; i < len(r.Rows) && row.Alike(r.Rows[i]) && !r.blocks(row.ID); i++ {
			n++
		}
		if row.Status == policy.Enforced && !row.Stricter {
			continue
		}
		name := row.ID
		if n > 1 {
			name = fmt.Sprintf("%s to %s", name, r.Rows[i-1].ID)
		}
		w := explain.Warning{Position: row.Position, Code: "not-enforced", Msg: fmt.Sprintf("%s: %s doesn't enforce it here: %s", name, r.Backend, row.Why)}
		switch {
		case row.Stricter:
			w.Code, w.Msg = "stricter", fmt.Sprintf("%s: %s grants less here: %s", name, r.Backend, row.Why)
		case row.Status == policy.Partly:
			w.Msg = fmt.Sprintf("%s: %s enforces it only partly here: %s", name, r.Backend, row.Why)
		}
		if r.blocks(row.ID) {
			w.Hint = "exec doesn't start unless --allow-degraded=" + row.ID + " is given"
		}
		out = append(out, w)
	}
	return out
}

func (r *Report) blocks(id string) bool {
	return slices.ContainsFunc(r.Blocking, func(row policy.Enforceability) bool { return row.ID == id })
}
