package policyfile

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/nearest"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/schema"
)

// checkTools checks the references between the tool sections of all files: a group or profile that doesn't exist would
// otherwise be a filter that never matches.
func (l *loader) checkTools() {
	files := make([]*Policy, len(l.doc.Files))
	for i, f := range l.doc.Files {
		files[i] = f.Policy
		l.readSchemas(f)
	}
	if !slices.ContainsFunc(files, (*Policy).hasTools) {
		return
	}
	c := toolCheck{loader: l, groups: map[string]policy.Position{toolset.GroupAll: {}, toolset.GroupPlugins: {}}, profiles: map[string]bool{}}
	for _, p := range append(files, builtinPolicy("tools")) {
		for name, g := range p.Groups {
			c.groups[name] = g.Position
		}
		for name, t := range p.Tools {
			if !isBuiltin(t.Position.File) {
				c.tables = append(c.tables, name)
			}
			if _, ok := c.groups[t.Plugin]; t.Plugin != "" && !ok {
				c.groups[t.Plugin] = t.Position
			}
		}
		for name := range p.Profiles {
			c.profiles[name] = true
		}
	}
	for _, author := range []policy.Authority{policy.Host, policy.Session} {
		c.author = newAuthorCheck()
		for _, f := range l.doc.Files {
			if f.Authority == author {
				c.policy(f.Policy)
			}
		}
		c.together()
	}
	c.checkSources(files)
}

// hasTools reports whether a file has settings of tools.
func (p *Policy) hasTools() bool {
	return p.Tools != nil || p.Groups != nil || p.Profiles != nil || p.Authorities != Authorities{} ||
		p.Gate != nil || p.Approvals != nil || p.Hooks.Before.Given || p.Hooks.After.Given || p.Access.enters()
}

// enters reports whether a program enters the policy of a tool.
func (a *Access) enters() bool {
	return a != nil && slices.ContainsFunc(a.Commands.Items, func(c NamedCommand) bool { return c.Enter.S != "" })
}

// toolCheck has the names that the files define.
type toolCheck struct {
	*loader
	groups   map[string]policy.Position // with those that need no definition
	profiles map[string]bool
	tables   []string // the patterns of [tools]
	author   *authorCheck
}

func (c *toolCheck) policy(p *Policy) {
	for _, name := range slices.Sorted(maps.Keys(p.Tools)) {
		c.tool(name, p.Tools[name])
	}
	c.spellings(p.Tools)
	for _, name := range slices.Sorted(maps.Keys(p.Groups)) {
		if name == toolset.GroupAll || name == toolset.GroupPlugins {
			c.fail(p.Groups[name].Position, "choose another name", "group %s is built in, and no file can change it", tomltree.Quote(name))
		}
		c.patterns(p.Groups[name].Items)
		c.nesting(name)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Profiles)) {
		c.stage(p.Profiles[name], "profiles."+name, mayStrip)
	}
	a := &p.Authorities
	c.stage(a.Global, "global", mayStart|mayStartByProvider)
	c.stage(a.Sandbox, "sandbox", mayStart)
	c.stage(a.Subagent, "subagent", mayStart|mayLimitDepth)
	if s := a.Subagent; s != nil && s.Deny.Given && s.Deny.Strategy == Replace {
		c.fail(s.Position.At(s.Keys["deny"]), "leave the strategy out", "files can only add to what sub-agents are denied")
	}
	c.named(a.Profile, "profile", mayStart|mayStrip)
	c.named(a.Provider, "provider", mayStart|mayStrip)
	c.named(a.Agent, "agent", mayStart|mayStartByProvider)
	c.named(a.Group, "group", mayStart|mayStrip)
	if g := p.Gate; g != nil {
		c.patterns(g.ToolPatterns.Items)
		c.patterns(g.Exclude.Items)
		c.roles(g.PathParameters.Items, g.Parameters)
	}
	for _, h := range slices.Concat(p.Hooks.Before.Items, p.Hooks.After.Items) {
		c.patterns(h.Tools.Items)
	}
	if p.Access != nil {
		c.commands(p.Access)
	}
}

func (c *toolCheck) named(n *Named, id string, may stageKeys) {
	if n == nil {
		return
	}
	c.stage(&n.Stage, id, may)
	for _, name := range slices.Sorted(maps.Keys(n.Names)) {
		c.stage(n.Names[name], id+"."+name, may)
	}
}

// commands checks that each program that enters a tool's policy names a tool that has a table.
func (c *toolCheck) commands(a *Access) {
	for _, cmd := range a.Commands.Items {
		if cmd.Enter.S == "" {
			continue
		}
		name, ok := strings.CutPrefix(cmd.Enter.S, "tool:")
		switch {
		case !ok || name == "":
			c.fail(cmd.Enter.Position, `write enter = "tool:NAME"`, "enter %s names no tool", tomltree.Quote(cmd.Enter.S))
		case len(c.tables) == 0:
			c.fail(cmd.Enter.Position, "add [tools.NAME]", "tool %s has no table", tomltree.Quote(name))
		case !slices.ContainsFunc(c.tables, func(t string) bool { return toolset.Normal(t) == toolset.Normal(name) }):
			c.fail(cmd.Enter.Position, nearest.Hint(name, c.tables, "there are "), "tool %s has no table", tomltree.Quote(name))
		}
	}
}

func (c *toolCheck) tool(name string, t *Tool) {
	c.pattern(name, t.Position)
	c.patterns(t.Implies.Items)
	if t.Constraints != nil {
		c.patterns(t.Constraints.OnlyAfter.Items)
	}
	if len(t.Aliases.Items) > 0 && !toolset.ValidName(name) {
		c.fail(t.Aliases.Items[0].Position, "give the aliases to a tool's own table", "%s is no name of a tool, so it can't have aliases", tomltree.Quote(name))
	}
	for _, alias := range t.Aliases.Items {
		if !toolset.ValidName(alias.S) {
			c.fail(alias.Position, "", "alias %s is no name that a tool can have", tomltree.Quote(alias.S))
		}
	}
	if t.Access != nil {
		c.commands(t.Access)
	}
	c.roles(t.PathParameters.Items, t.Parameters)
	c.localTool(t)
	c.serverTable(name, t)
	c.author.add(name, t)
}

// serverTable rejects what has no effect for the process of an MCP server: its tools have names of their own.
func (c *toolCheck) serverTable(name string, t *Tool) {
	if !strings.HasPrefix(toolset.Normal(name), "server:") {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(t.Keys)) {
		if key != "access" && key != "source" && key != "description" {
			c.fail(t.Position.At(t.Keys[key]), `write it in [tools."mcp__SERVER__*"], for the server's tools`, "%s has no effect in the table of a server's process", key)
		}
	}
}

// localTool checks the command of a local tool.
func (c *toolCheck) localTool(t *Tool) {
	if t.Keys["command"].Line != 0 && len(t.Command) == 0 {
		c.fail(t.Position.At(t.Keys["command"]), `write command = ["program", "{argument}"]`, "command is empty")
	}
	for _, e := range t.Command {
		if name, _ := schema.Placeholder(e.S); name == "" && strings.ContainsAny(e.S, "{}") {
			c.fail(e.Position, "make it an element of its own", "%s isn't a whole {NAME}", tomltree.Quote(e.S))
		}
	}
}

// stageKeys are the keys that not each stage may have.
type stageKeys uint8

const (
	mayStrip stageKeys = 1 << iota
	mayLimitDepth
	mayStart           // from a profile
	mayStartByProvider // from one of its own for a provider
	isOfProvider
)

func (c *toolCheck) stage(s *Stage, id string, may stageKeys) {
	if s == nil {
		return
	}
	if s.Allow != nil {
		c.patterns(s.Allow.Items)
	}
	c.patterns(s.Deny.Items)
	c.patterns(s.AlsoAllow.Items)
	if s.Access != nil {
		c.commands(s.Access)
	}
	if s.Profile.S != "" && !c.profiles[s.Profile.S] {
		names := slices.Sorted(maps.Keys(c.profiles))
		c.fail(s.Profile.Position, nearest.Hint(s.Profile.S, names, "there are "), "unknown profile %s", tomltree.Quote(s.Profile.S))
	}
	at := func(key string) policy.Position { return s.Position.At(s.Keys[key]) }
	c.author.addStage(s, id)
	if s.OnUnknown == "strip" && may&mayStrip == 0 {
		c.fail(at("on_unknown"), "", `on_unknown = "strip" is for stages of profiles, providers and groups`)
	}
	if s.Profile.S != "" && may&mayStart == 0 {
		c.fail(at("profile"), "", "profile has no effect here: it's for stages of authorities, and for those that global and agents have for a provider")
	}
	if s.Providers != nil && may&isOfProvider != 0 {
		c.fail(at("providers"), "", "a provider's stage can't have providers of its own")
	}
	if s.MaxDepth != 0 && may&mayLimitDepth == 0 {
		c.fail(at("max_depth"), "move it to [authorities.subagent]", "max_depth is for sub-agents alone")
	}
	own := mayStrip | isOfProvider
	if may&mayStartByProvider != 0 {
		own |= mayStart
	}
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		if strings.Contains(name, "*") {
			c.fail(s.Providers[name].Position, "write PROVIDER or PROVIDER/MODEL", "%s is a pattern, and names of providers are compared whole", tomltree.Quote(name))
		}
		c.stage(s.Providers[name], id+".providers."+strings.ToLower(name), own)
	}
}

// nesting rejects a group that is within itself, or too deep.
func (c *toolCheck) nesting(name string) {
	var walk func(name string, chain []string) bool
	walk = func(name string, chain []string) bool {
		if slices.Contains(chain, name) || len(chain) > maxDepth {
			c.fail(c.groups[chain[0]], "take one of them out", "group %s is within itself, or more than %d groups deep: %s",
				tomltree.Quote(chain[0]), maxDepth, strings.Join(append(chain, name), " -> "))
			return false
		}
		for _, m := range c.group(name) {
			if inner, ok := strings.CutPrefix(m.S, groupPrefix); ok && !walk(inner, append(slices.Clip(chain), name)) {
				return false
			}
		}
		return true
	}
	walk(name, nil)
}

func (c *toolCheck) patterns(list []Text) {
	for _, t := range list {
		c.pattern(t.S, t.Position)
	}
}

func (c *toolCheck) pattern(s string, at policy.Position) {
	group, ok := strings.CutPrefix(s, groupPrefix)
	_, known := c.groups[group]
	switch {
	case ok && !known:
		names := slices.Sorted(maps.Keys(c.groups))
		c.fail(at, nearest.Hint(group, names, "there are "), "unknown group %s", tomltree.Quote(group))
	case !ok && s != "" && !toolset.ValidName(strings.ReplaceAll(s, "*", "x")):
		c.fail(at, "a pattern is a name, with * for any run of characters, or group:NAME", "no tool can have a name like %s", tomltree.Quote(s))
	}
}
