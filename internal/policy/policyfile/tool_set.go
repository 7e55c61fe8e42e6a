package policyfile

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// Tools merges the tool layer of a document that Load returned: one layer for each author, the host's first. Each begins with the
// built-in groups, profiles and tables.
func (doc *Document) Tools() *toolset.Set {
	set := new(toolset.Set)
	for _, author := range []policy.Authority{policy.Host, policy.Session} {
		files := []*File{{Name: "builtin:tools", Authority: author, Policy: builtinPolicy("tools")}}
		for _, f := range doc.Files {
			if f.Authority == author {
				files = append(files, f)
			}
		}
		if author == policy.Session || len(files) > 1 {
			set.Layers = append(set.Layers, toolLayer(author, files))
		}
	}
	return set
}

// toolLayer merges the files of one author, the built-in one first.
func toolLayer(author policy.Authority, files []*File) *toolset.Layer {
	l := &toolset.Layer{Author: author, Groups: map[string][]toolset.Entry{}, Profiles: map[string]*toolset.Stage{}, Known: builtinNames()}
	tools := map[string]*toolset.Tool{}
	builtin := true
	for _, f := range files {
		m := toolMerge{prefix: "", builtin: builtin, dir: filepath.Dir(f.Path)}
		if author == policy.Host && !builtin {
			m.prefix = "host."
		}
		m.groups(l, f.Policy.Groups)
		m.profiles(l, f.Policy.Profiles)
		m.authorities(l, &f.Policy.Authorities)
		m.tools(tools, f.Policy.Tools)
		m.gate(&l.Gate, f.Policy.Gate)
		m.approvals(&l.Approvals, f.Policy.Approvals, "approvals")
		l.Before = m.hooks(l, l.Before, f.Policy.Hooks.Before, "hooks.before_tool_call")
		l.After = m.hooks(l, l.After, f.Policy.Hooks.After, "hooks.after_tool_call")
		builtin = false
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		l.Tools = append(l.Tools, tools[name])
	}
	l.Aliases = map[string]string{}
	for _, t := range l.Tools {
		for _, alias := range t.Aliases {
			l.Aliases[toolset.Normal(alias.Text)] = toolset.Normal(t.Pattern.Text)
		}
	}
	builtinFirst := func(t *toolset.Tool) int {
		if t.Pattern.Rule.Builtin() {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(l.Tools, func(a, b *toolset.Tool) int {
		return cmp.Or(compareTools(a.Pattern.Text, b.Pattern.Text), builtinFirst(a)-builtinFirst(b))
	})
	return l
}

// builtinNames are the names of tools in the built-in file, in the normal form.
func builtinNames() (names []string) {
	p := builtinPolicy("tools")
	add := func(list []Text) {
		for _, t := range list {
			if n := toolset.Normal(t.S); toolset.ValidName(n) && !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for _, g := range p.Groups {
		add(g.Items)
	}
	for _, s := range p.Profiles {
		if s.Allow != nil {
			add(s.Allow.Items)
		}
	}
	add(p.Authorities.Subagent.Deny.Items)
	add(p.Gate.ToolPatterns.Items)
	slices.Sort(names)
	return names
}

// toolMerge merges one file into a layer.
type toolMerge struct {
	prefix  string // of rule IDs
	builtin bool
	dir     string // the file's folder
}

func (m *toolMerge) rule(id string, at policy.Position) toolset.Rule {
	return toolset.Rule{ID: m.prefix + id, At: at}
}

func (m *toolMerge) entries(list []Text, id string) []toolset.Entry {
	out := make([]toolset.Entry, len(list))
	for i, t := range list {
		out[i] = toolset.Entry{Text: t.S, Rule: toolset.Rule{ID: m.prefix + id, At: t.Position}}
	}
	return out
}

// join merges a list of this file into the one of the earlier files.
func (m *toolMerge) join(earlier []toolset.Entry, l List[Text], id string) []toolset.Entry {
	later := List[toolset.Entry]{Strategy: l.Strategy, Items: m.entries(l.Items, id), Given: l.Given}
	return join(earlier, later, func(a, b toolset.Entry) bool { return toolset.Normal(a.Text) == toolset.Normal(b.Text) })
}

// groups merges groups. The first one of an author's files replaces a built-in one of its name.
func (m *toolMerge) groups(l *toolset.Layer, groups map[string]*Group) {
	for name, g := range groups {
		earlier := l.Groups[name]
		if !m.builtin && len(earlier) > 0 && isBuiltin(earlier[0].Rule.At.File) {
			earlier = nil
		}
		l.Groups[name] = m.join(earlier, g.List, "groups."+name)
		if l.Groups[name] == nil {
			l.Groups[name] = []toolset.Entry{} // defined, and empty
		}
	}
}

func (m *toolMerge) profiles(l *toolset.Layer, profiles map[string]*Stage) {
	for name, s := range profiles {
		earlier := l.Profiles[name]
		if !m.builtin && earlier != nil && isBuiltin(earlier.Rule.At.File) {
			earlier = nil
		}
		l.Profiles[name] = m.stage(earlier, s, "profiles."+name)
	}
}

func (m *toolMerge) authorities(l *toolset.Layer, a *Authorities) {
	l.Global = m.stage(l.Global, a.Global, "authorities.global")
	l.Sandbox = m.stage(l.Sandbox, a.Sandbox, "authorities.sandbox")
	l.Subagent = m.stage(l.Subagent, a.Subagent, "authorities.subagent")
	m.named(&l.Profile, a.Profile, "authorities.profile")
	m.named(&l.Provider, a.Provider, "authorities.provider")
	m.named(&l.Agent, a.Agent, "authorities.agent")
	m.named(&l.Group, a.Group, "authorities.group")
}

func (m *toolMerge) named(into *toolset.Named, n *Named, id string) {
	if n == nil {
		return
	}
	if len(n.Stage.Keys) > 0 {
		into.All = m.stage(into.All, &n.Stage, id)
	}
	for _, name := range slices.Sorted(maps.Keys(n.Names)) {
		if into.Names == nil {
			into.Names = map[string]*toolset.Stage{}
		}
		key := name
		if id == "authorities.provider" {
			key = strings.ToLower(name) // as in providers
		}
		into.Names[key] = m.stage(into.Names[key], n.Names[name], id+"."+name)
	}
}

// stage merges a stage of this file into that of the earlier ones, which may be nil.
func (m *toolMerge) stage(earlier *toolset.Stage, s *Stage, id string) *toolset.Stage {
	if s == nil {
		return earlier
	}
	out := &toolset.Stage{}
	if earlier != nil {
		*out = *earlier
	}
	out.Rule = toolset.Rule{ID: m.prefix + id, At: s.Position}
	if s.Allow != nil {
		out.Allow, out.Filters = m.join(out.Allow, *s.Allow, id+".allow"), true
		out.Rule.At = s.Position.At(s.Keys["allow"])
	}
	out.Deny = m.join(out.Deny, s.Deny, id+".deny")
	out.AlsoAllow = m.join(out.AlsoAllow, s.AlsoAllow, id+".also_allow")
	if s.Profile.S != "" {
		out.Profile = m.entries([]Text{s.Profile}, id+".profile")[0]
	}
	if s.OnUnknown != "" {
		out.Strip = s.OnUnknown == "strip"
	}
	if s.MaxDepth != 0 {
		out.MaxDepth = s.MaxDepth
	}
	out.Providers = maps.Clone(out.Providers)
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) { // two spellings are one
		p := s.Providers[name]
		if out.Providers == nil {
			out.Providers = map[string]*toolset.Stage{}
		}
		name = strings.ToLower(name)
		out.Providers[name] = m.stage(out.Providers[name], p, id+".providers."+name)
	}
	return out
}
