package backend

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
)

// Here is what this machine makes of a decision.
type Here struct {
	Status     policy.Status // how far the decision is enforced
	Stricter   bool          // an allowed one may be denied: Why says when
	By         string        // the mechanism; "": none
	Why        string        // what is missing, or what is stricter; "" for what is enforced as the rule says
	StartError string        // why no command starts under this policy; "" where one does
	Backend    string        // "" where no backend can be used
	Instead    string        // what would enforce more, as something to do
}

// Here says how far the backend enforces an answer to q. layers are what each authority says (explain.Explanation), and are asked for only
// where a denial isn't enforced by the authority that the answer names: another one's may be.
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

// decided says how far an authority's decision is enforced, made by a rule or (nil) by a default.
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
	row := r.rowOf(func(row *policy.Enforceability) bool { return row.Rule == rule && rule != nil })
	if !allow && (row == nil || row.Status == policy.Enforced) {
		if wider := r.rowOf(func(row *policy.Enforceability) bool { return exceeds(row, q, by) }); wider != nil {
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

func (r *Report) rowOf(is func(*policy.Enforceability) bool) *policy.Enforceability {
	i := slices.IndexFunc(r.Rows, func(row policy.Enforceability) bool { return is(&row) })
	if i < 0 {
		return nil
	}
	return &r.Rows[i]
}

// exceeds says whether a row is of a grant of an authority that gives more here than it says, and so perhaps what is asked for.
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

// Warnings are the rules that the backend doesn't enforce as they're written, in the order of the policy. Built-in rules of which the same
// is to be said are one.
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
