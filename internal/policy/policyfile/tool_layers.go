package policyfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// compareTools orders patterns from the general to the special. "" stands for every tool, and comes first.
func compareTools(a, b string) int {
	if a == "" || b == "" {
		return cmp.Compare(min(len(a), 1), min(len(b), 1))
	}
	return toolset.Compare(a, b)
}

const groupPrefix = toolset.GroupPrefix

// toolPieces returns the parts of a file's [tools] for the requested tool.
func (l *loader) toolPieces(f *File) []piece {
	if l.req.Tool == "" {
		return nil
	}
	var out []piece
	tool := toolset.Normal(l.req.Tool)
	for _, pattern := range slices.Sorted(maps.Keys(f.Policy.Tools)) {
		t := f.Policy.Tools[pattern]
		if t.Access != nil && l.toolMatches(pattern, tool, 0) {
			out = append(out, piece{authority: f.Authority, file: f, access: t.Access, tool: pattern})
		}
	}
	return out
}

// toolMatches reports whether a pattern of [tools] or [groups] matches a tool.
func (l *loader) toolMatches(pattern, tool string, depth int) bool {
	group, ok := strings.CutPrefix(pattern, groupPrefix)
	if !ok {
		return toolset.Glob(toolset.Normal(pattern), tool)
	}
	if depth > maxDepth {
		return false
	}
	for _, member := range l.group(group) {
		if l.toolMatches(member.S, tool, depth+1) {
			return true
		}
	}
	return false
}

// group returns the members of a group: the built-in ones, unless a file defines the group.
func (l *loader) group(name string) []Text {
	var members []Text
	if g := builtinPolicy("tools").Groups[name]; g != nil {
		members = g.Items
	}
	own := false
	for _, f := range l.doc.Files {
		g := f.Policy.Groups[name]
		if g == nil {
			continue
		}
		if !own {
			members, own = nil, true // a file's group replaces a built-in one
		}
		members = join(members, g.List, func(a, b Text) bool { return a.S == b.S })
	}
	return members
}
