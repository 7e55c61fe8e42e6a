package output

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session/backend"
)

// JSON writes v, indented.
func (s *Screen) JSON(v any) error {
	enc := json.NewEncoder(s.W)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("write the answer: %w", err)
	}
	return nil
}

// ruleRef is a rule with its position.
type ruleRef struct {
	ID        string `json:"id"`
	Authority string `json:"authority"`
	File      string `json:"file"`
	Line      int    `json:"line"`
	Col       int    `json:"col,omitempty"`
	Text      string `json:"text,omitempty"`
}

func ruleJSON(r *policy.Rule) *ruleRef {
	if r == nil {
		return nil
	}
	return &ruleRef{r.ID, r.Authority.String(), r.Position.File, r.Position.Line, r.Position.Col, explain.RuleText(r)}
}

// Answer is a decision.
type Answer struct {
	Decision  string        `json:"decision"`
	Reason    policy.Reason `json:"reason"`
	Authority string        `json:"authority,omitempty"`
	Target    string        `json:"target,omitempty"`
	Also      string        `json:"also,omitempty"` // the target's other name, by which it's denied
	Rule      *ruleRef      `json:"rule"`
	Note      string        `json:"note,omitempty"` // details beyond the reason
	Suggest   string        `json:"suggest,omitempty"`
	Advice    string        `json:"advice,omitempty"` // what to consider before a grant, where nothing is suggested
	Grants    []string      `json:"grants,omitempty"` // of a denial in a session: what is granted
	Here      hereAnswer    `json:"here"`
}

// hereAnswer is how far this machine enforces a decision.
type hereAnswer struct {
	Backend  string `json:"backend,omitempty"`
	Starts   bool   `json:"starts"`            // a command starts under this policy
	Refusal  string `json:"refusal,omitempty"` // why not
	Status   string `json:"status"`            // of the decision: enforced, partly or not_enforceable
	Stricter bool   `json:"stricter,omitempty"`
	By       string `json:"by,omitempty"`
	Why      string `json:"why,omitempty"`
	Instead  string `json:"instead,omitempty"` // what would enforce more
}

func hereJSON(h backend.Here) hereAnswer {
	return hereAnswer{h.Backend, h.StartError == "", h.StartError, statusJSON(h.Status), h.Stricter, h.By, h.Why, h.Instead}
}

func statusJSON(s policy.Status) string { return strings.ReplaceAll(s.String(), " ", "_") }

func AnswerJSON(a explain.Answer, h backend.Here) Answer {
	j := Answer{Decision: a.Decision, Reason: a.Reason, Target: a.Target, Also: a.Also, Rule: ruleJSON(a.Rule), Note: a.Note, Suggest: a.Suggest, Advice: a.Advice, Here: hereJSON(h)}
	if a.Authority != policy.Builtin || a.Rule != nil {
		j.Authority = a.Authority.String()
	}
	return j
}

type Explanation struct {
	Answer
	Layers []layerExplanation `json:"layers"`
}

type layerExplanation struct {
	Authority  string        `json:"authority"`
	Also       string        `json:"also,omitempty"`
	Default    string        `json:"default"`
	Decision   string        `json:"decision"`
	Reason     policy.Reason `json:"reason"`
	Candidates []candidate   `json:"candidates"`
}

type candidate struct {
	ruleRef
	Won   bool   `json:"won"`
	Grade string `json:"grade"`
	Why   string `json:"why"`
}

func ExplanationJSON(e explain.Explanation, h backend.Here) Explanation {
	j := Explanation{Answer: AnswerJSON(e.Answer, h), Layers: []layerExplanation{}}
	for _, l := range e.Layers {
		lj := layerExplanation{l.Authority.String(), l.Also, defaultAction(l.DefaultAction), decision(l.Allow), l.Reason, []candidate{}}
		for _, c := range l.Candidates {
			lj.Candidates = append(lj.Candidates, candidate{*ruleJSON(c.Rule), c.Won, c.Grade, c.Why})
		}
		j.Layers = append(j.Layers, lj)
	}
	return j
}

func decision(allow bool) string {
	if allow {
		return "allow"
	}
	return "deny"
}

func defaultAction(s policy.DefaultAction) string {
	return [...]string{"undeclared", "deny", "allow"}[s]
}

type enforceabilityReport struct {
	Policy  string           `json:"policy"`
	Digest  string           `json:"digest"`
	Backend string           `json:"backend"`
	Starts  bool             `json:"starts"`
	Rows    []enforceability `json:"rows"`
	Gaps    []string         `json:"gaps"`
	Passed  []string         `json:"not_chosen"` // why other backends were not chosen

	Detected []detected `json:"detected"` // presets in the built-in default policy
}

type detected struct {
	Preset string `json:"preset"`
	By     string `json:"by"`
}

type enforceability struct {
	ID       string   `json:"id"`
	Status   string   `json:"status"`
	Stricter bool     `json:"stricter,omitempty"` // the backend grants less than the rule
	Refused  bool     `json:"refused"`            // it prevents the start of the command
	Why      string   `json:"why,omitempty"`
	By       string   `json:"by,omitempty"`
	Rule     *ruleRef `json:"rule"`
	File     string   `json:"file,omitempty"`
	Line     int      `json:"line,omitempty"`
}

func EnforceabilityJSON(r backend.Report, p *policy.Compiled) enforceabilityReport {
	j := enforceabilityReport{p.Name, p.Digest, r.Backend, len(r.Blocking) == 0, []enforceability{}, append([]string{}, r.Gaps...), append([]string{}, r.Passed...), []detected{}}
	for _, d := range p.Detected {
		j.Detected = append(j.Detected, detected{d.Preset, d.By})
	}
	blocking := map[string]bool{}
	for _, row := range r.Blocking {
		blocking[row.ID] = true
	}
	for _, row := range r.Rows {
		j.Rows = append(j.Rows, enforceability{
			row.ID, statusJSON(row.Status), row.Stricter, blocking[row.ID] && row.Status != policy.Enforced,
			row.Why, row.By, ruleJSON(row.Rule), row.Position.File, row.Position.Line,
		})
	}
	return j
}

type lintReport struct {
	Errors   []finding `json:"errors"`
	Warnings []finding `json:"warnings"`
	Here     *Starts   `json:"here,omitempty"`
}

// Starts is whether a command starts under a policy on this machine.
type Starts struct {
	Backend string `json:"backend,omitempty"`
	Starts  bool   `json:"starts"`
	Instead string `json:"instead,omitempty"`
}

type finding struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Col     int    `json:"col"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

func LintJSON(mistakes policy.Errors, warnings []explain.Warning, here *Starts) lintReport {
	j := lintReport{Errors: []finding{}, Warnings: []finding{}, Here: here}
	for _, m := range mistakes {
		j.Errors = append(j.Errors, finding{m.Position.File, m.Position.Line, m.Position.Col, "", m.Msg, m.Hint})
	}
	for _, w := range warnings {
		j.Warnings = append(j.Warnings, finding{w.Position.File, w.Position.Line, w.Position.Col, w.Code, w.Msg, w.Hint})
	}
	return j
}

type compiled struct {
	Policy    string    `json:"policy"`
	Digest    string    `json:"digest"`
	Workspace string    `json:"workspace"`
	Files     []string  `json:"files"`
	Layers    []layer   `json:"layers"`
	Limits    []limit   `json:"limits"`
	Audit     string    `json:"audit"`
	Removed   []removed `json:"removed"` // built-in rules that aren't in force
}

type removed struct {
	ruleRef
	By   string `json:"by"`   // the rule without capabilities there; "": its path contains a symlink
	Link string `json:"link"` // where a symlink in its path leads
}

type layer struct {
	Authority    string            `json:"authority"`
	Default      map[string]string `json:"default"`
	Protect      string            `json:"protect"`
	Secrets      string            `json:"secrets"`
	Namespaces   bool              `json:"namespaces"`
	Syscalls     string            `json:"syscalls"`
	Capabilities []string          `json:"capabilities"`
	Degraded     []string          `json:"allow_degraded"`
	Rules        []shownRule       `json:"rules"`
}

type shownRule struct {
	ruleRef
	Resource string `json:"resource"`
	Builtin  bool   `json:"builtin"`
}

type limit struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Place string `json:"place"`
}

func PolicyJSON(p *policy.Compiled) compiled {
	j := compiled{p.Name, p.Digest, p.Workspace, append([]string{}, p.Files...), []layer{}, []limit{}, audited(p), []removed{}}
	for _, l := range p.Layers {
		lj := layer{
			Authority: l.Authority.String(), Default: map[string]string{}, Namespaces: l.Namespaces, Syscalls: l.Syscalls.Profile,
			Protect: protectMode(l.Mode), Secrets: protectMode(l.SecretsMode),
			Capabilities: append([]string{}, l.Capabilities...), Degraded: []string{}, Rules: []shownRule{},
		}
		for r := range policy.NumResources {
			lj.Default[r.String()] = defaultAction(l.Defaults[r])
		}
		for _, d := range l.Degraded {
			lj.Degraded = append(lj.Degraded, d.ID)
		}
		for _, r := range p.Rules {
			if r.Authority == l.Authority {
				lj.Rules = append(lj.Rules, shownRule{*ruleJSON(r), r.Resource.String(), r.Builtin()})
			}
		}
		j.Layers = append(j.Layers, lj)
	}
	for _, r := range p.Removed {
		by := ""
		if r.By != nil {
			by = r.By.ID
		}
		j.Removed = append(j.Removed, removed{*ruleJSON(r.Rule), by, r.Link})
	}
	for _, row := range limitRows(p.Limits) {
		j.Limits = append(j.Limits, limit{row[0].text, row[1].text, row[2].text})
	}
	return j
}

type change struct {
	Resource string   `json:"resource"`
	Widened  bool     `json:"widened"`
	Narrowed bool     `json:"narrowed"`
	Target   string   `json:"target"`
	Old      string   `json:"old"`
	New      string   `json:"new"`
	OldRule  *ruleRef `json:"old_rule"`
	NewRule  *ruleRef `json:"new_rule"`
}

func ChangesJSON(changes []explain.Change) []change {
	j := []change{}
	for _, ch := range changes {
		j = append(j, change{ch.Resource, ch.Widened, ch.Narrowed, ch.Target, ch.Old, ch.New, ruleJSON(ch.OldRule), ruleJSON(ch.NewRule)})
	}
	return j
}
