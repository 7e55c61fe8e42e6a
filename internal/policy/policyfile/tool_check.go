package policyfile

import (
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
)

// checkTools checks the references between the tool sections of all files: a group or profile that doesn't exist would
// otherwise be a filter that never matches.
func (l *loader) checkTools() {
	files := make([]*Policy, len(l.doc.Files))
	for i, f := range l.doc.Files {
		files[i] = f.Policy
	}
	if !slices.ContainsFunc(files, (*Policy).hasTools) {
		return
	}
	c := toolCheck{loader: l, groups: map[string]bool{}, profiles: map[string]bool{}}
	for _, p := range append(files, builtinPolicy("tools")) {
		for name := range p.Groups {
			c.groups[name] = true
		}
		for name := range p.Profiles {
			c.profiles[name] = true
		}
	}
	for _, p := range files {
		c.policy(p)
	}
	c.checkSources(files)
}

// hasTools reports whether a file has settings of tools.
func (p *Policy) hasTools() bool {
	return p.Tools != nil || p.Groups != nil || p.Profiles != nil || p.Authorities != Authorities{}
}

// toolCheck has the names that the files define.
type toolCheck struct {
	*loader
	groups, profiles map[string]bool
}

func (c *toolCheck) policy(p *Policy) {
	for _, name := range slices.Sorted(maps.Keys(p.Tools)) {
		t := p.Tools[name]
		c.tool(t)
		c.pattern(name, t.Position)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Groups)) {
		c.patterns(p.Groups[name].Items)
	}
	for _, name := range slices.Sorted(maps.Keys(p.Profiles)) {
		c.stage(p.Profiles[name])
	}
	a := &p.Authorities
	for _, s := range []*Stage{a.Global, a.Sandbox, a.Subagent} {
		c.stage(s)
	}
	for _, n := range []*Named{a.Profile, a.Provider, a.Agent, a.Group} {
		if n == nil {
			continue
		}
		c.stage(&n.Stage)
		for _, name := range slices.Sorted(maps.Keys(n.Names)) {
			c.stage(n.Names[name])
		}
	}
}

func (c *toolCheck) tool(t *Tool) {
	c.patterns(t.Implies.Items)
	if t.Constraints != nil {
		c.patterns(t.Constraints.OnlyAfter.Items)
	}
}

func (c *toolCheck) stage(s *Stage) {
	if s == nil {
		return
	}
	if s.Allow != nil {
		c.patterns(s.Allow.Items)
	}
	c.patterns(s.Deny.Items)
	if s.Profile.S != "" && !c.profiles[s.Profile.S] {
		names := slices.Sorted(maps.Keys(c.profiles))
		c.fail(s.Profile.Position, didYouMean(s.Profile.S, names, "there are "), "unknown profile %s", quote(s.Profile.S))
	}
	for _, name := range slices.Sorted(maps.Keys(s.Providers)) {
		c.stage(s.Providers[name])
	}
}

func (c *toolCheck) patterns(list []Text) {
	for _, t := range list {
		c.pattern(t.S, t.Position)
	}
}

func (c *toolCheck) pattern(s string, at policy.Position) {
	if group, ok := strings.CutPrefix(s, groupPrefix); ok && !c.groups[group] {
		names := slices.Sorted(maps.Keys(c.groups))
		c.fail(at, didYouMean(group, names, "there are "), "unknown group %s", quote(group))
	}
}
