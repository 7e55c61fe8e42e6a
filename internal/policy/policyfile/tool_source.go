package policyfile

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// sourced is a pattern of [tools] for which some file sets a source or a grant.
type sourced struct {
	pattern  string // normal
	written  string
	source   string
	position policy.Position
}

// checkSources rejects grants for tools whose access toolguard doesn't enforce: the effective source of a tool decides, whichever files
// and patterns the source and the grant come from.
func (c *toolCheck) checkSources(files []*Policy) {
	var sources, grants []sourced
	for _, p := range files {
		for _, name := range slices.Sorted(maps.Keys(p.Tools)) {
			t := p.Tools[name]
			if t.Source != "" {
				sources = append(sources, c.spread(sourced{written: name, source: t.Source, position: t.Position}, t)...)
			}
			if t.Access != nil {
				grants = append(grants, c.spread(sourced{written: name, position: t.Access.Position}, t)...)
			}
		}
	}
	slices.SortStableFunc(sources, func(a, b sourced) int { return compareTools(a.pattern, b.pattern) })
	seen := map[policy.Position]bool{}
	for _, g := range grants {
		if strings.HasPrefix(g.pattern, "mcp__") && !seen[g.position] {
			seen[g.position] = true
			c.fail(g.position, `confine the server's process: [tools."server:NAME".access]`,
				"%s is about a tool of an MCP server, so toolguard doesn't enforce its access", tomltree.Quote(g.written))
		}
		s := unenforced(g.pattern, sources)
		if s == nil || seen[g.position] {
			continue
		}
		seen[g.position] = true
		what := fmt.Sprintf("tool %s has source %q", tomltree.Quote(g.written), s.source)
		if s.written != g.written {
			what = fmt.Sprintf("%s is also about %s, which has source %q", tomltree.Quote(g.written), tomltree.Quote(s.written), s.source)
		}
		c.fail(g.position, "confine the server's process instead, or set source = \"local\" if toolguard starts the tool",
			"%s (%s), so toolguard doesn't enforce its access", what, s.position)
	}
}

// spread returns a table's pattern and the tool's aliases, with a group replaced by its members.
func (c *toolCheck) spread(s sourced, t *Tool) (out []sourced) {
	names := []string{s.written}
	for _, alias := range t.Aliases.Items {
		names = append(names, alias.S)
	}
	for _, name := range names {
		for _, pattern := range c.members(name, 0) {
			s.pattern = pattern
			out = append(out, s)
		}
	}
	return out
}

// members returns the normal patterns of a pattern.
func (l *loader) members(pattern string, depth int) (out []string) {
	group, ok := strings.CutPrefix(pattern, groupPrefix)
	switch {
	case !ok:
		return []string{toolset.Normal(pattern)}
	case group == toolset.GroupAll:
		return []string{"*"}
	case depth > maxDepth:
		return nil
	}
	for _, f := range l.doc.Files { // the tools of a plugin, or of all
		for _, name := range slices.Sorted(maps.Keys(f.Policy.Tools)) {
			plugin := f.Policy.Tools[name].Plugin
			if plugin != "" && (group == toolset.GroupPlugins || group == plugin) && !strings.HasPrefix(name, groupPrefix) {
				out = append(out, toolset.Normal(name))
			}
		}
	}
	for _, m := range l.group(group) {
		out = append(out, l.members(m.S, depth+1)...)
	}
	return out
}

// unenforced returns the effective source of a tool that a pattern grants to, where that isn't local; nil where there is no such tool.
// The sources are in order: the last one that matches decides.
func unenforced(pattern string, sources []sourced) *sourced {
	for _, s := range sources {
		for _, filler := range []string{"", "x", "\x01"} { // one of which makes it a name that is in no other pattern
			tool, ok := toolset.Common(pattern, s.pattern, filler)
			if s.source == "local" || !ok {
				continue
			}
			i := len(sources) - 1
			for !toolset.Glob(sources[i].pattern, tool) {
				i--
			}
			if sources[i].source != "local" {
				return &sources[i]
			}
		}
	}
	return nil
}
