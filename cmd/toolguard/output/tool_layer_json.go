package output

import (
	"fmt"
	"maps"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// layerEntry is one key of an author's files.
type layerEntry struct {
	ID      string   `json:"id"`
	Value   []string `json:"value"`
	File    string   `json:"file"`
	Line    int      `json:"line"`
	Builtin bool     `json:"builtin"`
}

// authorLayer is what one author's files say.
type authorLayer struct {
	Authority string                  `json:"authority"`
	Sections  map[string][]layerEntry `json:"sections"`
}

// forced is a setting that all authors' files yield together.
type forced struct {
	Key   string        `json:"key"`
	Value string        `json:"value"`
	Rule  *message.Rule `json:"rule"` // nil for a default
	from  string
}

// ToolLayer is the JSON of policy show --tools.
type ToolLayer struct {
	Policy struct {
		Name   string `json:"name"`
		Digest string `json:"digest"`
	} `json:"policy"`
	Authors []authorLayer `json:"authors"`
	InForce []forced      `json:"in_force"`
}

// ToolLayerJSON is what policy show --tools --json prints.
func ToolLayerJSON(p *policy.Compiled, set *toolset.Set) ToolLayer {
	out := ToolLayer{Authors: []authorLayer{}, InForce: inForce(set)}
	out.Policy.Name, out.Policy.Digest = p.Name, p.Digest
	for _, l := range set.Layers {
		a := authorLayer{l.Author.String(), map[string][]layerEntry{}}
		for _, s := range toolSections(l) {
			a.Sections[s.name] = []layerEntry{}
			for _, r := range s.rows {
				a.Sections[s.name] = append(a.Sections[s.name], layerEntry{r.rule.ID, r.value, r.rule.At.File, r.rule.At.Line, r.rule.Builtin()})
			}
		}
		out.Authors = append(out.Authors, a)
	}
	return out
}

// inForce are the settings of the gate and of approvals that apply, each with the rule that decided.
func inForce(set *toolset.Set) (all []forced) {
	add := func(key, value string, rules map[string]toolset.Rule, name string) {
		r, ok := rules[name]
		from := "default"
		if ok {
			from = r.ID + ", " + r.At.String()
		}
		all = append(all, forced{key, value, toolRuleJSON(r), from})
	}
	g := set.Gate()
	for _, x := range []struct{ key, value string }{
		{"enabled", fmt.Sprint(g.Enabled)},
		{"strict", fmt.Sprint(g.Strict)},
		{"allow_parent_access", fmt.Sprint(g.AllowParentAccess)},
		{"shell", g.Shell},
	} {
		add("gate."+x.key, x.value, g.Rules, x.key)
	}
	agents := map[string]bool{"": true}
	for _, l := range set.Layers {
		for name := range l.Approvals.Agents {
			agents[name] = true
		}
	}
	for _, agent := range slices.Sorted(maps.Keys(agents)) {
		a, prefix := set.Approvals(agent), "approvals."
		if agent != "" {
			prefix += "agents." + agent + "."
		}
		if !a.Given {
			add("approvals", "none: nobody is asked", nil, "")
			break
		}
		for _, x := range []struct{ key, value string }{
			{"security", a.Security},
			{"ask", a.Ask},
			{"ask_fallback", a.AskFallback},
			{"timeout", span(a.Timeout)},
		} {
			add(prefix+x.key, x.value, a.Rules, x.key)
		}
	}
	return all
}
