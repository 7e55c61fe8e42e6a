package policyfile

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// normalTool is a tool's name as it's compared: without case, with _ for -.
func normalTool(name string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "_")
}

// matchTool reports whether a pattern, a name with * for any run of characters, matches a tool. Both are normal.
func matchTool(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	name = name[len(head):]
	for {
		head, rest, star = strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, head)
		}
		i := strings.Index(name, head)
		if i < 0 {
			return false
		}
		name = name[i+len(head):]
	}
}

// compareTools orders patterns from the general to the special: by the length of what isn't a *, then whole names last.
func compareTools(a, b string) int {
	literal := func(s string) int {
		switch {
		case s == "":
			return -1
		case strings.HasPrefix(s, groupPrefix):
			return 0
		}
		return len(s) - strings.Count(s, "*")
	}
	exact := func(s string) int { return -strings.Count(s, "*") }
	return cmp.Or(cmp.Compare(literal(a), literal(b)), cmp.Compare(exact(a), exact(b)))
}

const groupPrefix = "group:"

// toolPieces returns the parts of a file's [tools] for the requested tool.
func (l *loader) toolPieces(f *File) []piece {
	if l.req.Tool == "" {
		return nil
	}
	var out []piece
	tool := normalTool(l.req.Tool)
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
		return matchTool(normalTool(pattern), tool)
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
