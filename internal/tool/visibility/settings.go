package visibility

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// settings are what one author's tables say about a tool, the most special table last.
type settings struct {
	forbidden, models, ownerOnly *toolset.Tool // the table that decides; nil where it isn't so
}

// set applies a table over the earlier ones to a tool.
func (a *author) set(list *[]settings, i int, t *toolset.Tool) {
	if *list == nil {
		*list = make([]settings, len(a.targets))
	}
	s := &(*list)[i]
	if t.OwnerOnly != nil {
		s.ownerOnly = where(t, *t.OwnerOnly)
	}
	if t.Forbidden != nil {
		s.forbidden = where(t, *t.Forbidden)
	}
	if t.HasModels {
		s.models = t
	}
}

// seenBy reports whether the models of the table include PROVIDER/MODEL, in lower case.
func (s *settings) seenBy(model string) bool {
	return slices.ContainsFunc(s.models.Models, func(e toolset.Entry) bool {
		pattern := strings.ToLower(e.Text)
		if !strings.Contains(pattern, "/") {
			pattern += "/*"
		}
		return toolset.Glob(pattern, model)
	})
}

// resolve finds each tool's target, its settings, and the tools that imply it.
func (a *author) resolve(tools []candidate) {
	a.targets = make([]toolset.Target, len(tools))
	for i, t := range tools {
		given := toolset.Normal(t.name)
		a.targets[i] = toolset.Target{Name: a.layer.Canonical(given), Given: given, Bare: toolset.Normal(t.bare)}
	}
	a.implied = map[int][]int{}
	for _, t := range a.layer.Tools {
		if t.Plugin != "" {
			a.plugin(t)
		}
	}
	for _, t := range a.layer.Tools { // those for the groups of plugins need to know the plugins
		if t.OwnerOnly != nil || t.Forbidden != nil || t.HasModels || len(t.Implies) > 0 { // others are about calls
			a.table(t)
		}
	}
}

// plugin adds the plugin of a table to the tools that the table is about. A table that only matches the bare name of a server's tool,
// which the server has chosen, gives the tool no place in a plugin's group where that allows.
func (a *author) plugin(t *toolset.Tool) {
	m := a.layer.Matcher([]toolset.Entry{t.Pattern})
	for i := range a.targets {
		target := &a.targets[i]
		if m.Find(target, false) != nil {
			target.Plugin = t.Plugin
		} else if m.Find(target, true) != nil {
			target.BarePlugin = t.Plugin
		}
	}
}

// table adds one table to the settings of the tools that it's about. One that only matches the bare name of a server's tool restricts it:
// it takes no restriction away, and gives the tool no implied tools.
func (a *author) table(t *toolset.Tool) {
	m := a.layer.Matcher([]toolset.Entry{t.Pattern})
	var implied []int
	if len(t.Implies) > 0 {
		implies := a.layer.Matcher(t.Implies)
		for j := range a.targets {
			if implies.Find(&a.targets[j], false) != nil {
				implied = append(implied, j)
			}
		}
	}
	for i := range a.targets {
		if m.Find(&a.targets[i], false) == nil {
			if m.Find(&a.targets[i], true) != nil {
				a.set(&a.bare, i, t)
			}
			continue
		}
		a.set(&a.tables, i, t)
		for _, j := range implied {
			a.implied[j] = append(a.implied[j], i)
		}
	}
}

func where(t *toolset.Tool, yes bool) *toolset.Tool {
	if yes {
		return t
	}
	return nil
}
