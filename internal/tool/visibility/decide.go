package visibility

import (
	"fmt"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Decide returns what the caller sees of the given tools.
func Decide(set *toolset.Set, c Caller, given []Tool) *Result {
	e := newEvaluation(set, c, given)
	for _, a := range e.authors {
		e.checkTables(a)
	}
	for _, a := range e.authors {
		for i := range a.stages {
			e.apply(a, &a.stages[i])
		}
	}
	return e.result()
}

// evaluation is one Decide under way. The tools that a policy's table names come after the given ones, as they may imply these.
type evaluation struct {
	caller   Caller
	authors  []*author
	tools    []candidate
	given    int
	names    map[string]int // by the name of a tool: its index
	warnings []string
}

// candidate is a tool on its way through the stages.
type candidate struct {
	name      string // as it was given, with the server
	bare      string
	ownerOnly bool
	removed   *Removal
}

// author is one layer of the policy with its stages.
type author struct {
	layer   *toolset.Layer
	stages  []stage
	targets []toolset.Target // of each tool: aliases are the author's own
	tables  []settings       // of each tool; nil where no table says anything
	bare    []settings       // the same by tables that only match its bare name
	implied map[int][]int    // by tool: those that imply it
	known   map[string]bool  // by entry of a list of allowed tools: it matches a given tool or a built-in name
}

func newEvaluation(set *toolset.Set, c Caller, given []Tool) *evaluation {
	e := &evaluation{caller: c, given: len(given), tools: make([]candidate, 0, len(given)+16)}
	for _, t := range given {
		full, bare := fullName(t)
		e.tools = append(e.tools, candidate{name: full, bare: bare, ownerOnly: t.OwnerOnly})
	}
	for _, name := range implying(set) {
		e.tools = append(e.tools, candidate{name: name})
	}
	e.checkNames()
	for _, l := range set.Layers {
		a := &author{layer: l, known: map[string]bool{}}
		p := pipeline{layer: l, caller: c, warn: func(format string, args ...any) { e.warn(fmt.Sprintf(format, args...)) }}
		p.build()
		a.stages = p.stages
		a.resolve(e.tools)
		e.authors = append(e.authors, a)
	}
	e.checkCollisions()
	return e
}

// UnknownNames returns a warning for each name of a caller that has no table of an authority that has tables for names.
func UnknownNames(set *toolset.Set, c Caller) []string {
	return newEvaluation(set, c, nil).warnings
}

func (e *evaluation) warn(text string) {
	if !slices.Contains(e.warnings, text) {
		e.warnings = append(e.warnings, text)
	}
}

// implying are the whole names of tables that imply other tools.
func implying(set *toolset.Set) (names []string) {
	for _, l := range set.Layers {
		for _, t := range l.Tools {
			if len(t.Implies) > 0 && toolset.ValidName(t.Pattern.Text) && !slices.Contains(names, t.Pattern.Text) {
				names = append(names, t.Pattern.Text)
			}
		}
	}
	return names
}

func (e *evaluation) remove(i int, stage, reason string, rule toolset.Rule) {
	if e.tools[i].removed == nil {
		e.tools[i].removed = &Removal{stage, reason, rule}
	}
}

func (e *evaluation) checkNames() {
	for i := range e.tools {
		if t := &e.tools[i]; !toolset.ValidName(t.name) || t.bare != "" && !toolset.ValidName(t.bare) {
			e.remove(i, labelTools, BadName, toolset.Rule{})
		}
	}
}

// checkCollisions removes the later of two given tools that are one to an author. A name that is given also counts as the one that a
// table has.
func (e *evaluation) checkCollisions() {
	for n, a := range e.authors {
		seen := make(map[string]int, len(e.tools))
		for i := range e.tools {
			name := a.targets[i].Name
			if e.tools[i].removed != nil && e.tools[i].removed.Reason == BadName {
				continue
			}
			if _, ok := seen[name]; !ok {
				seen[name] = i
			} else if i < e.given {
				e.remove(i, labelTools, NameCollision, toolset.Rule{})
			}
		}
		if n == 0 {
			e.names = seen
		}
	}
}

// checkTables applies what one author's tables say about tools: models, what is forbidden, and what only the owner sees.
func (e *evaluation) checkTables(a *author) {
	model := strings.ToLower(e.caller.Provider + "/" + e.caller.Model)
	for i := range e.tools {
		for _, list := range [][]settings{a.tables, a.bare} {
			if list == nil {
				continue
			}
			s := &list[i]
			if s.forbidden != nil {
				e.remove(i, labelTools, Forbidden, s.forbidden.ID("constraints.forbidden"))
			}
			if s.models != nil && (e.caller.Provider == "" || !s.seenBy(model)) {
				e.remove(i, labelTools, Models, s.models.ID("models"))
			}
			if s.ownerOnly != nil && !e.caller.Owner {
				e.remove(i, labelOwner, OwnerOnly, s.ownerOnly.ID("owner_only"))
			}
		}
		if e.tools[i].ownerOnly && !e.caller.Owner {
			e.remove(i, labelOwner, OwnerOnly, toolset.Rule{})
		}
	}
}

// apply runs one stage of an author over all tools.
func (e *evaluation) apply(a *author, s *stage) {
	if s.tooDeep != nil {
		for i := range e.tools {
			e.remove(i, s.label, TooDeep, *s.tooDeep)
		}
	}
	for k := range s.filters {
		e.filter(a, s, &s.filters[k])
	}
}

func (e *evaluation) filter(a *author, s *stage, f *filter) {
	strip := false
	if f.allow != nil {
		unknown := e.unknown(a, f)
		if len(unknown) > 0 {
			e.warn(fmt.Sprintf("tools: %s allowlist contains unknown entries (%s)", s.label, strings.Join(unknown, ", ")))
		}
		strip = f.strip && len(unknown) == len(f.allowList) && len(f.allowList) > 0
	}
	if f.deny != nil {
		for i := range e.tools {
			if e.tools[i].removed == nil {
				if entry := f.deny.Find(&a.targets[i], true); entry != nil {
					e.remove(i, s.label, Denied, entry.Rule)
				}
			}
		}
	}
	if f.allow == nil || strip {
		return
	}
	passes := func(i int) bool {
		return e.tools[i].removed == nil && f.allow.Find(&a.targets[i], false) != nil
	}
	var gone []int
	for i := range e.tools {
		if e.tools[i].removed == nil && !passes(i) && !(len(a.implied) > 0 && slices.ContainsFunc(a.implied[i], passes)) {
			gone = append(gone, i)
		}
	}
	for _, i := range gone {
		rule := f.rule
		rule.ID += ".allow"
		e.remove(i, s.label, NotAllowed, rule)
	}
}

// unknown are the entries of a list of allowed tools that match no given tool and no built-in name.
func (e *evaluation) unknown(a *author, f *filter) (names []string) {
	for i := range f.allowList {
		text := f.allowList[i].Text
		known, ok := a.known[text]
		if !ok {
			known = e.known(a, f.allowList[i:i+1])
			a.known[text] = known
		}
		if !known {
			names = append(names, text)
		}
	}
	return names
}

func (e *evaluation) known(a *author, entry []toolset.Entry) bool {
	name := toolset.Normal(entry[0].Text)
	if i, ok := e.names[name]; ok && i < e.given || slices.Contains(a.layer.Known, name) {
		return true
	}
	m := a.layer.Matcher(entry)
	for i := range a.targets[:e.given] {
		if m.Find(&a.targets[i], false) != nil {
			return true
		}
	}
	return slices.ContainsFunc(a.layer.Known, func(name string) bool { return m.Find(&toolset.Target{Name: name}, false) != nil })
}

func (e *evaluation) result() *Result {
	r := &Result{Tools: make([]State, e.given), Warnings: e.warnings}
	for i := range r.Tools {
		r.Tools[i] = State{Name: toolset.Normal(e.tools[i].name), Removed: e.tools[i].removed}
	}
	return r
}
