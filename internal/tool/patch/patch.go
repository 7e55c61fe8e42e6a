package patch

import (
	"fmt"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// Action is what a patch does to a file.
type Action uint8

// The actions.
const (
	Create Action = iota + 1 // or replace what exists
	Modify
	Delete
	Move // from Path to To
	Read // the source of a copy
)

// File is a file that a patch touches.
type File struct {
	Action Action
	Path   string // as the patch has it: relative, absolute, with ".."
	To     string // of Move
}

// The bounds of a patch.
const (
	maxText  = 1 << 20 // bytes
	maxFiles = 10000
)

// scan is the state of reading one text, line by line.
type scan struct {
	line  int // counted from 1
	files []File
	seen  map[File]bool
	err   error // the first one

	numbered bool // the text has a hunk with line numbers, without which no program takes a "--- " alone for a header
	doubt    bool // a name has no prefix of git
	both     bool // names are read with and without their first folder, whatever they begin with
	section  section
	hunk     hunk

	apply  applyPatch
	indoc  string // the delimiter of the shell's here-document around the patch; "" for none
	quoted bool   // the delimiter is quoted: the shell expands nothing
	ended  bool   // the here-document is over
}

// Files returns the files that a patch touches. None and no error: the text names no file, for example a hunk without a header.
func Files(text string) ([]File, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("the patch is larger than %d KiB", maxText>>10)
	}
	files, doubt, err := read(text, false)
	if doubt && err == nil { // a name without git's prefix makes git apply keep the prefixes of the others
		files, _, err = read(text, true)
	}
	return files, err
}

func read(text string, both bool) (files []File, doubt bool, err error) {
	s := &scan{both: both, seen: map[File]bool{}, numbered: numberedHunk().MatchString(text), apply: applyPatch{found: applyAny().MatchString(text)}}
	lines := strings.Split(strings.TrimPrefix(text, "\ufeff"), "\n")
	s.openHeredoc(lines)
	for i := 0; i < len(lines) && s.err == nil; i++ {
		s.line = i + 1
		line := strings.TrimSuffix(lines[i], "\r")
		s.hidden(line)
		if s.heredoc(line) {
			continue
		}
		s.applyHeader(line)
		if !s.hunkLine(line, lines[i+1:]) {
			s.header(line)
		}
	}
	s.flush()
	s.endMove()
	if s.err != nil {
		return nil, s.doubt, s.err
	}
	return s.files, s.doubt, nil
}

func (s *scan) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("line %d of the patch: %w", s.line, fmt.Errorf(format, args...))
	}
}

func (s *scan) add(a Action, path, to string) {
	f := File{a, path, to}
	switch {
	case s.seen[f]:
	case path == "" || strings.ContainsRune(path+to, 0):
		s.fail("%q is no name of a file", path+to)
	case len(s.files) == maxFiles:
		s.fail("the patch touches more than %d files", maxFiles)
	default:
		s.seen[f] = true
		s.files = append(s.files, f)
	}
}

// numberedHunk matches the first line of a hunk, also where the whole patch is indented.
var numberedHunk = lazy.Regexp(`(?m)^[ \tX]*(?:- )*@@ -\d`)

// separators are characters at which some programs end a line, as Python's splitlines does, and others don't.
const separators = "\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029"

var anyHeader = lazy.Regexp(`^[ \t]*(?:[-+*]{3}[ \t]|diff --git|rename |copy |Index:|@@ -\d)`)

// hidden rejects a header that only some programs find at the beginning of a line.
func (s *scan) hidden(line string) {
	for {
		i := strings.IndexAny(line, separators)
		if i < 0 {
			return
		}
		line = strings.TrimLeft(line[i:], separators)
		if anyHeader().MatchString(line) {
			s.fail("%.60q is a header only for programs that end a line at the character before it", line)
		}
	}
}

// heredocStart is the command that some models put around a patch.
var heredocStart = lazy.Regexp(`^\s*(?:(?:\S*/)?apply_?patch\s*)?<<-?\s*(?:'([\w.-]+)'|"([\w.-]+)"|([\w.-]+))\s*$`)

func (s *scan) openHeredoc(lines []string) {
	first := 0
	for first < len(lines) && strings.TrimSpace(lines[first]) == "" {
		first++
	}
	if first == len(lines) || !strings.Contains(lines[first], "<<") || strings.Contains(lines[first], "<<<<") || anyHeader().MatchString(lines[first]) {
		return
	}
	if m := heredocStart().FindStringSubmatch(lines[first]); m != nil {
		s.indoc, s.quoted = m[1]+m[2]+m[3], m[3] == ""
		return
	}
	s.line = first + 1
	s.fail("%.60q is a command of a shell, and only apply_patch <<'EOF' is read", lines[first])
}

// heredoc reports whether a line isn't part of the patch within a here-document.
func (s *scan) heredoc(line string) bool {
	line = strings.TrimSpace(line)
	switch {
	case s.indoc == "":
		return false
	case s.ended && line != "" && line != "```":
		s.fail("%.60q follows the end of the here-document", line)
	case line == s.indoc:
		s.ended = true
	case !s.quoted && strings.ContainsAny(line, "$`\\"):
		s.fail("the shell would change %.60q: quote the delimiter, <<'EOF'", line)
	}
	return s.ended
}
