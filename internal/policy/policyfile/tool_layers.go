package policyfile

import (
	"cmp"
	"maps"
	"slices"

	"github.com/toolguard/toolguard/internal/policy"
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
	if l.req.Tool == "" || f.Policy.Tools == nil || len(l.errs) > 0 { // groups can be endless if there are errors
		return nil
	}
	var about []string
	var out []piece
	for _, pattern := range slices.Sorted(maps.Keys(f.Policy.Tools)) {
		t := f.Policy.Tools[pattern]
		if t.Access != nil && about == nil { // else the layer isn't needed
			about = l.toolLayer(f.Authority).Patterns(l.req.Tool)
		}
		if t.Access != nil && slices.ContainsFunc(about, func(p string) bool { return tableKey(p) == tableKey(pattern) }) {
			out = append(out, piece{authority: f.Authority, file: f, access: t.Access, tool: pattern})
		}
	}
	return out
}

// toolLayer returns the tool layer of an author. Each author's files have their own groups and aliases.
func (l *loader) toolLayer(author policy.Authority) *toolset.Layer {
	if l.toolLayers == nil {
		l.toolLayers = map[policy.Authority]*toolset.Layer{}
		for _, layer := range l.doc.Tools().Layers {
			l.toolLayers[layer.Author] = layer
		}
	}
	return l.toolLayers[author]
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
