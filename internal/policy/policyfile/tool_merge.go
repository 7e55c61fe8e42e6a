package policyfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// tableKey is what makes two tables of [tools] one: names of groups are compared as they are.
func tableKey(pattern string) string {
	if strings.HasPrefix(pattern, groupPrefix) {
		return pattern
	}
	return toolset.Normal(pattern)
}

// tools merges tables by pattern, key by key.
func (m *toolMerge) tools(into map[string]*toolset.Tool, tables map[string]*Tool) {
	for pattern, t := range tables {
		id, key := "tools."+pattern, tableKey(pattern)
		out := into[key]
		if out == nil {
			out = &toolset.Tool{Keys: map[string]toolset.Rule{}, Roles: map[string]toolset.Role{}}
			into[key] = out
		}
		out.Pattern = toolset.Entry{Text: pattern, Rule: m.rule(id, t.Position)}
		m.keys(out.Keys, t.Keys, t.Position, id, "")
		set(t.Source != "", &out.Source, t.Source)
		set(t.Description != "", &out.Description, t.Description)
		set(t.Plugin != "", &out.Plugin, t.Plugin)
		set(t.Kind != "", &out.Kind, t.Kind)
		set(t.Risk != "", &out.Risk, t.Risk)
		set(t.Ask != "", &out.Ask, t.Ask)
		set(t.OwnerOnly != nil, &out.OwnerOnly, t.OwnerOnly)
		out.Aliases = m.join(out.Aliases, t.Aliases, id+".aliases")
		out.Implies = m.join(out.Implies, t.Implies, id+".implies")
		if t.Models.Given {
			out.Models, out.HasModels = m.join(out.Models, t.Models, id+".models"), true
		}
		m.roles(out.Roles, t.PathParameters, t.Parameters, id)
		m.local(out, t, id)
		m.constraints(out, t.Constraints, id+".constraints")
	}
}

// keys adds the rules of a table's keys; prefix comes before their names.
func (m *toolMerge) keys(into map[string]toolset.Rule, keys lineCols, at policy.Position, id, prefix string) {
	for key, value := range keys {
		into[prefix+key] = m.rule(id+"."+key, at.At(value))
	}
}

func (m *toolMerge) local(out *toolset.Tool, t *Tool, id string) {
	if t.Command != nil {
		out.Command = nil
		for _, e := range t.Command {
			out.Command = append(out.Command, e.S)
		}
	}
	if t.Schema != nil {
		out.Schema = &toolset.Schema{Text: t.Schema.JSON, Rule: m.rule(id+".schema", t.Schema.Position)}
	}
}

func (m *toolMerge) constraints(out *toolset.Tool, c *Constraints, id string) {
	if c == nil {
		return
	}
	delete(out.Keys, "constraints")
	m.keys(out.Keys, c.Keys, c.Position, id, "constraints.")
	set(c.MaxInvocations != 0, &out.MaxInvocations, c.MaxInvocations)
	set(c.Forbidden != nil, &out.Forbidden, c.Forbidden)
	out.OnlyAfter = m.join(out.OnlyAfter, c.OnlyAfter, id+".only_after")
}

// roles merges path_parameters, which are short for the role "path", and parameters. Names are compared in lower case.
func (m *toolMerge) roles(into map[string]toolset.Role, paths List[Text], roles map[string]Role, id string) {
	if paths.Strategy == Replace {
		maps.DeleteFunc(into, func(_ string, r toolset.Role) bool { return r.Name == "path" })
	}
	for _, p := range paths.Items {
		into[strings.ToLower(p.S)] = toolset.Role{Name: "path", Rule: m.rule(id+".path_parameters", p.Position)}
	}
	for name, r := range roles {
		into[strings.ToLower(name)] = toolset.Role{Name: r.S, Rule: m.rule(id+".parameters."+name, r.Position)}
	}
}

func (m *toolMerge) gate(into *toolset.GateTable, g *Gate) {
	if g == nil {
		return
	}
	if into.Keys == nil {
		into.Keys, into.Roles = map[string]toolset.Rule{}, map[string]toolset.Role{}
	}
	m.keys(into.Keys, g.Keys, g.Position, "gate", "")
	set(g.Enabled != nil, &into.Enabled, g.Enabled)
	set(g.Strict != nil, &into.Strict, g.Strict)
	set(g.AllowParentAccess != nil, &into.AllowParentAccess, g.AllowParentAccess)
	set(g.Shell != "", &into.Shell, g.Shell)
	into.ToolPatterns = m.join(into.ToolPatterns, g.ToolPatterns, "gate.tool_patterns")
	into.Exclude = m.join(into.Exclude, g.Exclude, "gate.exclude")
	m.roles(into.Roles, g.PathParameters, g.Parameters, "gate")
}

func (m *toolMerge) approvals(into *toolset.ApprovalTable, a *Approvals, id string) {
	if a == nil {
		return
	}
	if into.Keys == nil {
		into.Keys, into.Agents = map[string]toolset.Rule{}, map[string]*toolset.ApprovalTable{}
	}
	m.keys(into.Keys, a.Keys, a.Position, id, "")
	set(a.Security != "", &into.Security, a.Security)
	set(a.Ask != "", &into.Ask, a.Ask)
	set(a.AskFallback != "", &into.AskFallback, a.AskFallback)
	set(a.Timeout.D > 0, &into.Timeout, a.Timeout.D)
	for name, own := range a.Agents {
		if into.Agents[name] == nil {
			into.Agents[name] = &toolset.ApprovalTable{}
		}
		m.approvals(into.Agents[name], own, id+".agents."+name)
	}
	delete(into.Keys, "agents")
}

// defaultHookTimeout is a hook's deadline where its table has none.
const defaultHookTimeout = 5 * time.Second

func (m *toolMerge) hooks(l *toolset.Layer, earlier []*toolset.Hook, list List[Hook], id string) []*toolset.Hook {
	later := List[*toolset.Hook]{Strategy: list.Strategy, Given: list.Given}
	for _, h := range list.Items {
		out := &toolset.Hook{Command: h.Command, URL: h.URL, Dir: m.dir, Timeout: cmp.Or(h.Timeout.D, defaultHookTimeout), Rule: m.rule(id, h.Position), Layer: l}
		if h.Tools.Given {
			out.Tools = m.entries(h.Tools.Items, id+".tools")
		}
		later.Items = append(later.Items, out)
	}
	return join(earlier, later, func(a, b *toolset.Hook) bool { return slices.Equal(a.Command, b.Command) && a.URL == b.URL })
}
