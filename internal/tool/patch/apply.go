package patch

import (
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// applyPatch is the state of the format of apply_patch.
type applyPatch struct {
	found  bool     // the text has headers of this format
	paths  []string // readings of the last Update File or Move File, which a Move to may follow
	line   int      // of that header
	update bool     // it's an Update File, whose files haven't been added
}

var (
	applyFile = lazy.Regexp(`(?i)^\*\*\*\s*(add|create|update|modify|delete|remove|move|rename)\s+(?:file\s*:|to\s*:)\s?(.*)$`)
	applyTo   = lazy.Regexp(`(?i)^\*\*\*\s*\w+\s+to`)
	applyAny  = lazy.Regexp(`(?im)^[ \t]*\*\*\*\s*(?:begin patch|(?:add|create|update|modify|delete|remove|move|rename)\s+(?:file\s*:|to\s*:))`)
	applyMark = lazy.Regexp(`(?i)^\*\*\*\s*(?:begin patch|end patch|end of file)\s*$`)
)

// applyHeader reads a header of apply_patch. They count in every text, also indented, because programs trim the lines before they look.
func (s *scan) applyHeader(line string) {
	trimmed := strings.TrimSpace(line)
	if !strings.HasPrefix(trimmed, "***") {
		return
	}
	if applyMark().MatchString(trimmed) {
		return
	}
	m := applyFile().FindStringSubmatch(trimmed)
	if m == nil {
		if s.apply.found && strings.HasPrefix(line, "***") { // a line of content has another first character
			s.fail("%.60q is no header that apply_patch has", line)
		}
		return
	}
	verb, path := strings.ToLower(m[1]), m[2]
	if strings.TrimSpace(path) == "" {
		s.fail("%.60q names no file", line)
		return
	}
	paths := unquoted(path)
	if applyTo().MatchString(trimmed) {
		s.moveTo(verb, paths)
		return
	}
	s.endMove()
	a := &s.apply
	switch verb {
	case "add", "create":
		s.addAll(Create, paths)
	case "delete", "remove":
		s.addAll(Delete, paths)
	case "update", "modify":
		a.paths, a.line, a.update = paths, s.line, true
	default:
		if from, to, ok := strings.Cut(path, "->"); ok {
			s.moveAll(unquoted(strings.TrimSpace(from)), unquoted(strings.TrimSpace(to)))
			return
		}
		a.paths, a.line = paths, s.line
	}
}

// moveTo reads the target of a move.
func (s *scan) moveTo(verb string, paths []string) {
	a := &s.apply
	if verb != "move" && verb != "rename" || a.paths == nil {
		s.fail("%q has no file that is moved", paths[0])
		return
	}
	s.moveAll(a.paths, paths)
	if s.line == a.line+1 {
		a.paths = nil // for every program it's a move
	}
}

func (s *scan) moveAll(from, to []string) {
	for _, f := range from {
		for _, t := range to {
			s.add(Move, f, t)
		}
	}
}

// endMove ends the part of the last Update File or Move File.
func (s *scan) endMove() {
	a := &s.apply
	switch {
	case a.paths != nil && a.update:
		s.addAll(Modify, a.paths)
	case a.paths != nil:
		s.fail("%q is moved, and the next line doesn't say where to", a.paths[0])
	}
	*a = applyPatch{found: a.found}
}

// unquoted returns a path as it is, and without the blanks or quotes around it, which some programs remove.
func unquoted(path string) []string {
	if plain := strings.TrimSpace(path); plain != path {
		return append(unquoted(plain), path)
	}
	if n := len(path); n > 2 && path[0] == path[n-1] && strings.IndexByte("\"'`", path[0]) >= 0 {
		return []string{path, path[1 : n-1]}
	}
	return []string{path}
}
