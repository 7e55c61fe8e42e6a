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
	a.tables = make([]settings, len(tools))
	for i, t := range tools {
		given := toolset.Normal(t.name)
		a.targets[i] = toolset.Target{Name: a.layer.Canonical(given), Given: given, Bare: toolset.Normal(t.bare)}
	}
	a.implied = map[int][]int{}
	for _, t := range a.layer.Tools {
		a.table(t)
	}
}

// table adds one table to the settings of the tools that it's about.
func (a *author) table(t *toolset.Tool) {
	m := a.layer.Matcher([]toolset.Entry{t.Pattern})
	implies := a.layer.Matcher(t.Implies)
	for i := range a.targets {
		if m.Find(&a.targets[i], true) == nil {
			continue
		}
		s := &a.tables[i]
		if t.Plugin != "" {
			a.targets[i].Plugin = t.Plugin
		}
		if t.OwnerOnly != nil {
			s.ownerOnly = where(t, *t.OwnerOnly)
		}
		if t.Forbidden != nil {
			s.forbidden = where(t, *t.Forbidden)
		}
		if t.HasModels {
			s.models = t
		}
		for j := range a.targets {
			if len(t.Implies) > 0 && implies.Find(&a.targets[j], false) != nil {
				a.implied[j] = append(a.implied[j], i)
			}
		}
	}
}

func where(t *toolset.Tool, yes bool) *toolset.Tool {
	if yes {
		return t
	}
	return nil
}
