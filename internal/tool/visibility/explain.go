package visibility

import (
	"slices"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Explanation is why a caller sees a tool, or doesn't.
type Explanation struct {
	Name    string // as it was given
	Normal  string // as it's compared
	Removed *Removal
	Stages  []Step // up to the one that removes the tool
}

// Step is what one stage does to a tool.
type Step struct {
	Label   string
	Result  string // "keep", "remove" or "absent": the policy has nothing for this stage
	Pattern string // the entry that decided; "" for none
	Rule    toolset.Rule
}

// Explain decides about one of the given tools, and lists what each stage does to it. A tool that isn't given is added.
func Explain(set *toolset.Set, c Caller, given []Tool, name string) *Explanation {
	i := slices.IndexFunc(given, func(t Tool) bool { return t.Name == name })
	if i < 0 {
		i = slices.IndexFunc(given, func(t Tool) bool { full, _ := fullName(t); return toolset.Normal(full) == toolset.Normal(name) })
	}
	if i < 0 {
		i, given = len(given), append(slices.Clip(given), Tool{Name: name})
	}
	e := newEvaluation(set, c, given)
	x := &Explanation{Name: given[i].Name, Normal: toolset.Normal(e.tools[i].name)}
	if len(e.authors) > 0 {
		x.Normal = e.authors[len(e.authors)-1].targets[i].Name
	}
	for _, a := range e.authors {
		e.checkTables(a)
	}
	if x.Removed = e.tools[i].removed; x.Removed != nil {
		x.Stages = []Step{{x.Removed.Stage, "remove", "", x.Removed.Rule}}
		return x
	}
	x.Stages = []Step{{Label: labelOwner, Result: "keep"}}
	for _, a := range e.authors {
		for k := range a.stages {
			s := &a.stages[k]
			e.apply(a, s)
			x.Stages = append(x.Stages, e.step(a, s, i))
			if x.Removed = e.tools[i].removed; x.Removed != nil {
				return x
			}
		}
	}
	return x
}

// step describes what a stage that has been applied did to a tool.
func (e *evaluation) step(a *author, s *stage, i int) Step {
	t := &a.targets[i]
	switch r := e.tools[i].removed; {
	case r != nil:
		step := Step{s.label, "remove", "", r.Rule}
		for k := range s.filters {
			if f := &s.filters[k]; r.Reason == Denied && f.deny != nil {
				if entry := f.deny.Find(t, true); entry != nil {
					step.Pattern = entry.Text
					break
				}
			}
		}
		return step
	case s.absent():
		return Step{Label: s.label, Result: "absent"}
	}
	step := Step{Label: s.label, Result: "keep"}
	for k := range s.filters {
		if f := &s.filters[k]; f.allow != nil {
			if entry := f.allow.Find(t, false); entry != nil {
				step.Pattern, step.Rule = entry.Text, entry.Rule
			}
		}
	}
	return step
}
