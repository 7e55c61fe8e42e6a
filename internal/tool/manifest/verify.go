package manifest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/tool/visibility"
)

// Severity is how grave a widening is.
type Severity string

// The severities.
const (
	Info   Severity = "info"
	Medium Severity = "medium"
	High   Severity = "high"
)

// severities are those of the codes.
var severities = map[string]Severity{
	"tool.added.high-risk": High, "tool.risk.increased": High, "tool.exec.widened": High, "tool.network.widened": High,
	"tool.filesystem.write.widened": High, "tool.enter.widened": High, "constraint.removed": High, "approval.weakened": High,
	"protect.removed": High, "secrets.removed": High, "hook.removed": High,
	"tool.added": Medium, "tool.visible.widened": Medium, "tool.filesystem.read.widened": Medium, "tool.environment.widened": Medium,
	"gate.weakened": Medium, "limit.raised": Medium,
	"manifest.version.changed": Info,
}

// Rank orders severities: info, medium, high.
func (s Severity) Rank() int { return slices.Index([]Severity{Info, Medium, High}, s) }

// Widening is something that only the new manifest permits.
type Widening struct {
	Code     string   `json:"code"`
	Severity Severity `json:"severity"`
	Tool     string   `json:"tool"` // "" for every tool
	Resource string   `json:"resource"`
	Before   string   `json:"before"`
	After    string   `json:"after"`
	Witness  *Witness `json:"witness"` // of access alone: else null
	Rule     *Rule    `json:"rule"`    // of the new manifest, that permits it; null where none does
	Caller   *Caller  `json:"caller,omitempty"`
}

// Witness is a question of check --batch that the old policy denies and the new one allows.
type Witness struct {
	Tool     string   `json:"tool,omitempty"`
	Resource string   `json:"resource"`
	Action   string   `json:"action"`
	Target   string   `json:"target,omitempty"`
	Argv     []string `json:"argv,omitempty"`
}

// Rule is a rule of a policy.
type Rule struct {
	ID        string `json:"id"`
	Authority string `json:"authority"`
	File      string `json:"file"`
	Line      int    `json:"line"`
}

// Result is what Verify finds.
type Result struct {
	Widenings []Widening       `json:"widenings"`
	Counts    map[Severity]int `json:"counts"`
}

// Fails reports whether a widening is at least as grave as a severity.
func (r *Result) Fails(at Severity) bool {
	return slices.ContainsFunc(r.Widenings, func(w Widening) bool { return w.Severity.Rank() >= at.Rank() })
}

// verifier is the state of Verify.
type verifier struct {
	old, new *side
	out      []Widening
	seen     map[string]bool
	compared map[string]bool
	examples []example           // the first one is of no manifest
	callers  []visibility.Caller // that a manifest distinguishes
	added    map[string]bool     // tools that the old manifest shows to nobody
}

// Verify returns what the new manifest permits and the old one doesn't. An error is that of a manifest that Generate can't have made, or
// that is too large to compare.
func Verify(old, new *Manifest) (*Result, error) {
	v := &verifier{old: newSide(old), new: newSide(new), seen: map[string]bool{}, compared: map[string]bool{}}
	v.old.files = slices.Concat(old.Policy.Files, new.Policy.Files)
	v.new.files = v.old.files
	v.examples, v.callers = v.universe(), v.combined()
	v.added = v.hidden()
	if err := v.access(); err != nil {
		return nil, err
	}
	if err := v.enters(); err != nil {
		return nil, err
	}
	v.tools()
	v.settings()
	r := &Result{Widenings: append([]Widening{}, v.out...), Counts: map[Severity]int{Info: 0, Medium: 0, High: 0}}
	slices.SortStableFunc(r.Widenings, func(a, b Widening) int {
		if d := b.Severity.Rank() - a.Severity.Rank(); d != 0 {
			return d
		}
		return strings.Compare(a.Tool, b.Tool)
	})
	for _, w := range r.Widenings {
		r.Counts[w.Severity]++
	}
	return r, nil
}

func (v *verifier) add(w Widening) {
	w.Severity = severities[w.Code]
	same := w
	same.Caller = nil
	if w.Witness != nil { // what everybody may do, each tool and caller may, too
		x := *w.Witness
		x.Tool, same.Witness, same.Tool = "", &x, ""
	}
	if k := text(same); !v.seen[k] {
		v.seen[k] = true
		v.out = append(v.out, w)
	}
}

// names returns the tools of both manifests; "" for none comes first.
func (v *verifier) names() []string {
	names := words{}
	names.add("")
	for _, s := range []*side{v.old, v.new} {
		for _, t := range s.m.Tools {
			names.add(t.Name)
		}
	}
	return names.list
}

// access compares what may be touched: of every tool for all callers, and of every tool for each caller whose own stage has changed.
func (v *verifier) access() error {
	callers := words{}
	all := map[string]Caller{}
	for _, s := range []*side{v.old, v.new} {
		for _, x := range s.m.Stages {
			k := text(x.Caller)
			callers.add(k)
			all[k] = x.Caller
		}
	}
	for _, k := range callers.list {
		c := all[k]
		a, b := v.old.stage(c), v.new.stage(c)
		if c != (Caller{}) && text(a.Access) == text(b.Access) {
			continue
		}
		for _, tool := range v.names() {
			if err := v.compare(tool, c, a, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// compare compares one tool for one caller.
func (v *verifier) compare(tool string, c Caller, a, b *Stage) error {
	old, new := v.old.access(tool), v.new.access(tool)
	id := text([]any{old, new, a.Access, b.Access})
	if v.compared[id] || text([]any{old, a.Access}) == text([]any{new, b.Access}) {
		return nil
	}
	v.compared[id] = true
	for i, at := range layouts {
		p, err := v.old.compile(tool, c, at)
		if err != nil {
			return fmt.Errorf("the old manifest: %w", err)
		}
		q, err := v.new.compile(tool, c, at)
		if err != nil {
			return fmt.Errorf("the new manifest: %w", err)
		}
		x := &comparison{verifier: v, tool: tool, caller: c, at: at, old: p, new: q}
		if err := x.files(); err != nil {
			return err
		}
		if i == 0 { // only paths depend on where the workspace is
			for _, r := range []policy.Resource{policy.Net, policy.Env, policy.Commands} {
				x.resource(r)
			}
			x.commandEnvs()
			x.rest()
		}
	}
	return nil
}

// comparison compares two compiled policies.
type comparison struct {
	*verifier
	tool     string
	caller   Caller
	at       layout
	old, new *policy.Compiled
}

// widened adds a widening with a witness.
func (x *comparison) widened(code, before, after string, w Witness, r *policy.Rule) {
	w.Tool = x.tool
	out := Widening{Code: code, Tool: x.tool, Resource: w.Resource, Before: before, After: after, Witness: &w, Rule: ruleOf(r)}
	if w.Resource == "command" {
		out.Resource = policy.Commands.String()
	}
	if x.caller != (Caller{}) {
		out.Caller = &x.caller
	}
	x.add(out)
}

func ruleOf(r *policy.Rule) *Rule {
	if r == nil {
		return nil
	}
	return &Rule{r.ID, r.Authority.String(), r.Position.File, r.Position.Line}
}

// fileCodes are the codes of capabilities.
var fileCodes = []struct {
	caps policy.Caps
	code string
}{
	{policy.Write, "tool.filesystem.write.widened"},
	{policy.Execute, "tool.exec.widened"},
	{policy.Read, "tool.filesystem.read.widened"},
}

// files finds paths on which the new policy allows more: one for each code, deciding rule and combination. Of the built-in rules that a
// machine without the file lacks, there's one only where nothing else shows the widening.
func (x *comparison) files() error {
	seen, certain := map[string]bool{}, map[string]bool{}
	var optional []func()
	for _, s := range searches(x.old, x.new) {
		err := s.run(func(p string) {
			old, new := x.old.Caps(p), x.new.Caps(p)
			r := deciding(x.new, p)
			for _, c := range fileCodes {
				k := fmt.Sprint(c.code, ruleOf(r), (new&^old)&c.caps)
				q := explain.Question{Resource: policy.FS, Caps: s.caps, Target: p}
				if s.caps&c.caps == 0 || seen[k] || !x.changes(q) {
					continue
				}
				seen[k] = true
				add := func() {
					x.widened(c.code, old.String(), new.String(), Witness{Resource: "fs", Action: s.caps.String(), Target: x.at.portable(p)}, r)
					certain[c.code] = true
				}
				if r == nil || !r.FS.Optional || !builtin(r.Position.File) || p == x.at.workspace {
					add()
					continue
				}
				optional = append(optional, func() {
					if !certain[c.code] {
						add()
					}
				})
			}
		})
		if err != nil {
			return err
		}
	}
	for _, add := range optional {
		add()
	}
	return nil
}

// changes reports whether only the new policy allows something.
func (x *comparison) changes(q explain.Question) bool {
	old, _ := explain.Ask(x.old, tree{x.at}, q)
	new, _ := explain.Ask(x.new, tree{x.at}, q)
	return !old.Allow && new.Allow
}

// deciding returns the rule of the last authority that has one for a path.
func deciding(c *policy.Compiled, p string) *policy.Rule {
	for _, l := range slices.Backward(c.Layers) {
		if r := l.FS.Deciding(p); r != nil && l.Authority != policy.Builtin {
			return r
		}
	}
	return nil
}

// portable returns a path of a layout as a manifest has it.
func (at layout) portable(p string) string {
	e := encoder{workspace: at.workspace, home: at.home}
	p = e.portable(p)
	if fspath.Within(p, at.home) || strings.HasPrefix(p, "/") {
		return p
	}
	if strings.HasPrefix(p, "$") || strings.HasPrefix(p, "%") || strings.HasPrefix(p, "file:") || strings.HasPrefix(p, "~") && p != "~" && !strings.HasPrefix(p, "~/") {
		return "./" + p
	}
	return p
}

// resource asks the questions about one resource: the first one for each pair of deciding rules is the witness.
func (x *comparison) resource(r policy.Resource) {
	code := map[policy.Resource]string{policy.Net: "tool.network.widened", policy.Env: "tool.environment.widened", policy.Commands: "tool.exec.widened"}[r]
	name := r.String()
	if r == policy.Commands {
		name = "command"
	}
	seen := map[[2]int32]bool{}
	for _, q := range candidates(x.old, x.new, r) {
		old, _ := explain.Ask(x.old, tree{x.at}, q.Question)
		new, a := explain.Ask(x.new, tree{x.at}, q.Question)
		if k := [2]int32{old.Rule, new.Rule}; !old.Allow && new.Allow && !seen[k] {
			seen[k] = true
			x.widened(code, "deny", "allow", Witness{Resource: name, Action: q.action, Target: q.target, Argv: q.Argv}, a.Rule)
		}
	}
}

// rest compares what no question is about.
func (x *comparison) rest() {
	for _, d := range explain.Diff(x.old, x.new) {
		if !d.Widened {
			continue
		}
		w := Widening{Tool: x.tool, Resource: d.Target, Before: d.Old, After: d.New}
		if x.caller != (Caller{}) {
			w.Caller = &x.caller
		}
		_, what, _ := strings.Cut(d.Target, ": ")
		switch {
		case d.Resource != "access" || what == "":
			continue
		case what == "unprotected files":
			w.Code = "protect.removed"
		case what == "readable secrets":
			w.Code = "secrets.removed"
		default: // namespaces, capabilities, system calls, rules that needn't be enforced
			w.Code = "tool.exec.widened"
		}
		x.add(w)
	}
}
