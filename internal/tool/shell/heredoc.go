package shell

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
	"mvdan.cc/sh/v3/syntax"
)

var delimiter = lazy.Regexp(`^(\\?[A-Za-z0-9_.!%+@:-]+|'[A-Za-z0-9_.!%+@: -]+'|"[A-Za-z0-9_.!%+@: -]+")$`)

// hereDocument requires that the parser reads a here-document from the line after the redirection to the first line that is the
// delimiter. Where shells disagree (line ends in quotes, continued lines, delimiters with special characters), it's unclear.
func (s *scan) hereDocument(r *syntax.Redirect) {
	if r.Op != syntax.Hdoc && r.Op != syntax.DashHdoc {
		return
	}
	src, word := s.a.src, s.a.source(r.Word)
	lineEnd := strings.IndexByte(src[r.OpPos.Offset():], '\n')
	if !delimiter().MatchString(word) || lineEnd < 0 {
		s.a.unclear(word, "is the delimiter of a here-document")
		return
	}
	lineEnd += int(r.OpPos.Offset())
	start, later := s.heredoc[lineEnd]
	if !later {
		start = lineEnd + 1
	}
	quoted := strings.ContainsAny(word, `\'"`)
	length, ok := findDelimiter(src[start:], strings.Trim(word, `\'"`), r.Op == syntax.DashHdoc, quoted)
	end := start + length
	if ok && r.Hdoc != nil && (int(r.Hdoc.Pos().Offset()) != start || int(r.Hdoc.End().Offset()) != end) {
		ok = false
	}
	if !ok || (r.Hdoc == nil) != (strings.TrimLeft(src[start:end], "\t") == strings.Trim(word, `\'"`)) || !s.closesAfter(end) {
		s.a.unclear(word, "is the delimiter of a here-document that shells read differently")
	}
	// bash 5.2 executes a substitution as it prints the parsed commands, and misplaces here-documents before further commands of the line.
	rest := src[r.Word.End().Offset():lineEnd]
	if s.within(isSubstitution) && (later || strings.ContainsAny(rest, ";&<(")) {
		s.a.unclear(word, "is the delimiter of a here-document, with more commands in its line")
	}
	s.heredoc[lineEnd] = end + 1
}

// findDelimiter returns the length of a here-document with its last line, without that line's end.
func findDelimiter(text, delim string, tabs, quoted bool) (length int, ok bool) {
	joined, continued := "", false
	for line := range strings.SplitSeq(text, "\n") {
		length += len(line)
		if tabs {
			line = strings.TrimLeft(line, "\t")
		}
		if line == delim {
			return length, !continued
		}
		length++
		backslashes := len(line) - len(strings.TrimRight(line, `\`))
		joined += strings.TrimRight(line, `\`)
		if continued = !quoted && backslashes%2 == 1; continued {
			continue
		}
		if joined == delim && !quoted {
			return length, false
		}
		joined = ""
	}
	return 0, false
}

func isSubstitution(n syntax.Node) bool {
	switch n.(type) {
	case *syntax.CmdSubst, *syntax.ProcSubst:
		return true
	}
	return false
}

// closesAfter reports whether the command substitutions around a here-document end after it.
func (s *scan) closesAfter(end int) bool {
	return !slices.ContainsFunc(s.around, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst:
			return n.Backquotes || int(n.Right.Offset()) <= end
		case *syntax.ProcSubst:
			return int(n.Rparen.Offset()) <= end
		}
		return false
	})
}
