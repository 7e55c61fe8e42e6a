package patch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/lazy"
)

// section is what the headers of one file in a unified diff say.
type section struct {
	git       bool // begun by "diff --git"
	ambiguous bool // the names of that line can't be determined
	line      int
	pairs     [][2]name // before and after: of "diff --git", of "---" and "+++"
	old, new  name      // of "---" and "+++"
	index     []string  // of "Index:"

	wasNull                                bool // an earlier pair's file didn't exist before
	created, deleted                       bool
	renameFrom, renameTo, copyFrom, copyTo string

	hunks  bool
	starts bool // a hunk begins with nothing: the file may be created
	ends   bool // a hunk leaves nothing: the file may be deleted
	leaves bool // a hunk leaves something: a deleted file isn't deleted by a program that looks
}

// hunk is what remains of the hunk that is being read.
type hunk struct {
	old, new int      // lines
	names    []string // what follows "--- " and "+++ " in its lines
	open     bool
}

var hunkStart = lazy.Regexp(`^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? ?@`)

// after returns what follows a keyword and a blank.
func after(line, keyword string) (string, bool) {
	rest, ok := strings.CutPrefix(line, keyword)
	if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\t' || strings.TrimSpace(rest) == "" {
		return "", false
	}
	return rest[1:], true
}

// hunkLine reports whether a line is content of a hunk. It also adds the files of lines that are headers for other programs.
func (s *scan) hunkLine(line string, next []string) bool {
	h := &s.hunk
	if !h.open {
		_, header := after(line, "---")
		if line != "" && strings.ContainsRune(" -+", rune(line[0])) && !header && line != "-- " {
			s.wrongCounts() // there is more of the hunk
		}
		h.names = nil
		return false
	}
	kind := byte(' ') // an empty line, whose blank a program has removed
	if line != "" {
		kind = line[0]
	}
	switch kind {
	case ' ', '\t':
		h.old--
		h.new--
	case '-':
		h.old--
	case '+':
		h.new--
	case '\\': // No newline at end of file
		return true
	}
	if h.old < 0 || h.new < 0 || !strings.ContainsRune(" \t-+", rune(kind)) {
		s.wrongCounts()
		return false
	}
	s.contentHeader(line, next)
	h.open = h.old > 0 || h.new > 0
	return true
}

// contentHeader finds headers within a hunk. Programs that count the hunk's lines take them for content; others don't if the line of a
// hunk follows them. If the counts turn out to be wrong, any may be one.
func (s *scan) contentHeader(line string, next []string) {
	h := &s.hunk
	before, isOld := after(line, "---")
	behind, isNew := after(line, "+++")
	switch {
	case isOld:
		h.names = append(h.names, before)
	case isNew:
		h.names = append(h.names, behind)
	}
	if len(next) < 2 || !isOld || !strings.HasPrefix(next[1], "@@") {
		return
	}
	if following, ok := after(strings.TrimSuffix(next[0], "\r"), "+++"); ok {
		s.addSection(&section{created: true, old: s.parseName(before), new: s.parseName(following)})
	}
}

// wrongCounts ends a hunk whose lines aren't as many as it announces. Programs that don't count may take its lines for headers, and would
// create the files if the hunk after them says so.
func (s *scan) wrongCounts() {
	for _, text := range s.hunk.names {
		n := s.parseName(text)
		s.addAll(Create, n.paths(false))
	}
	s.hunk = hunk{}
}

// header reads a line outside hunks.
func (s *scan) header(line string) {
	indented := line
	line = strings.TrimLeft(line, " \tX") // GNU patch reads patches that are indented, or in a message within a message
	for strings.HasPrefix(line, "- ") {
		line = strings.TrimLeft(line[2:], " \tX")
	}
	c := &s.section
	if rest, ok := strings.CutPrefix(line, "diff --git"); ok {
		s.flush()
		s.openGit(strings.TrimSpace(rest))
		return
	}
	if rest, ok := after(line, "---"); ok {
		if c.old.given || c.new.given || c.hunks {
			s.nextPair()
		}
		s.section.old = s.parseName(rest)
		return
	}
	if rest, ok := after(line, "+++"); ok {
		if c.new.given || c.hunks {
			s.nextPair()
		}
		s.section.new = s.parseName(rest)
		return
	}
	if rest, ok := after(line, "Index:"); ok {
		if c.hunks || c.index != nil {
			s.flush()
		}
		n := s.parseName(rest)
		s.section.index = n.paths(false)
		return
	}
	if strings.HasPrefix(line, "***************") {
		s.fail("it's a context diff, and only unified diffs are read")
	}
	if s.startHunk(line, indented == line) || !c.git || c.hunks {
		return
	}
	s.extended(line)
}

// nextPair begins the names of the next file. Before the first hunk after "diff --git", what that section says applies to them, too.
func (s *scan) nextPair() {
	c := &s.section
	if !c.git || c.hunks {
		s.flush()
		return
	}
	c.pairs = append(c.pairs, [2]name{c.old, c.new})
	c.wasNull = c.wasNull || c.old.null
	c.leaves = true
	c.old, c.new = name{}, name{}
}

// startHunk reads the first line of a hunk.
func (s *scan) startHunk(line string, counted bool) bool {
	m := hunkStart().FindStringSubmatch(line)
	if m == nil {
		return false
	}
	count := func(text string) int {
		if text == "" {
			return 1
		}
		n, err := strconv.Atoi(text)
		if err != nil || n > 1<<30 {
			s.fail("%.60q has no number of lines", line)
		}
		return n
	}
	c := &s.section
	before, after := count(m[2]), count(m[4])
	c.hunks = true
	c.starts = c.starts || before == 0 // git apply, too, creates the file then
	c.ends = c.ends || after == 0 && count(m[3]) == 0
	c.leaves = c.leaves || after > 0
	if counted {
		s.hunk = hunk{old: before, new: after, open: before > 0 || after > 0}
	}
	return true
}

// openGit begins the section of a line "diff --git".
func (s *scan) openGit(rest string) {
	before, after, ok := s.gitNames(rest)
	s.section = section{git: true, ambiguous: !ok, line: s.line}
	if ok {
		s.section.pairs = [][2]name{{{given: true, variants: []string{before}}, {given: true, variants: []string{after}}}}
	}
}

// symlink is the mode of a symlink in git's headers.
const symlink = "120000"

// extended reads the headers that only git's diffs have.
func (s *scan) extended(line string) {
	c := &s.section
	plain := func(text string) string {
		if strings.HasPrefix(text, `"`) {
			text, _ = s.unquote(text)
		}
		return text
	}
	for keyword, to := range map[string]*string{
		"rename from": &c.renameFrom, "rename old": &c.renameFrom, "rename to": &c.renameTo, "rename new": &c.renameTo,
		"copy from": &c.copyFrom, "copy to": &c.copyTo,
	} {
		if text, ok := after(line, keyword); ok {
			if *to != "" {
				s.fail("%.60q is given twice", keyword)
			}
			*to = plain(text)
			return
		}
	}
	mode, created := after(line, "new file mode")
	changed, isChange := after(line, "new mode")
	_, deleted := after(line, "deleted file mode")
	c.created = c.created || created
	c.deleted = c.deleted || deleted
	index, isIndex := after(line, "index")
	if strings.HasPrefix(strings.TrimSpace(mode), symlink) || isChange && strings.HasPrefix(strings.TrimSpace(changed), symlink) ||
		isIndex && strings.HasSuffix(strings.TrimSpace(index), " "+symlink) {
		s.fail("it makes a symlink")
	}
}

func (s *scan) addAll(a Action, paths []string) {
	for _, p := range paths {
		s.add(a, p, "")
	}
}

// flush adds the files of a section, and begins the next.
func (s *scan) flush() {
	c := s.section
	s.section = section{}
	for _, p := range c.pairs {
		s.doubt = s.doubt || !gitPrefixes(&p[0], &p[1])
	}
	if c.new.given && !(c.git && (c.old.null || c.new.null)) {
		s.doubt = s.doubt || !gitPrefixes(&c.old, &c.new)
	}
	s.addSection(&c)
}

// addSection adds the files of a section.
func (s *scan) addSection(c *section) {
	counts := s.numbered || c.git || c.new.given
	if c.old.given && counts || c.new.given {
		c.pairs = append(c.pairs, [2]name{c.old, c.new})
	}
	paths := c.index
	for _, p := range c.pairs {
		style := gitPrefixes(&p[0], &p[1])
		for i := range p {
			own := style
			if c.git && p[1-i].null && len(c.pairs) > 0 && gitPrefixes(&c.pairs[0][0], &c.pairs[0][1]) { // git diff -R has the prefixes the other way round
				own = p[i].prefix() != ""
			}
			paths = append(paths, p[i].paths(own && !s.both)...)
		}
	}
	moved := s.moves(c)
	if c.ambiguous && len(paths) == 0 && len(moved) == 0 {
		s.line = c.line
		s.fail("the two names of diff --git can't be determined")
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return slices.Contains(moved, p) })
	created := c.created || c.wasNull || c.old.null || c.old.epoch || c.starts
	deleted := c.deleted || c.new.null
	maybe := c.new.epoch || c.ends
	if created {
		s.addAll(Create, paths)
	}
	if deleted || maybe {
		s.addAll(Delete, paths)
	}
	if !created && !deleted || maybe && !deleted && !created || deleted && c.leaves && !created {
		s.addAll(Modify, paths)
	}
}

// moves adds the files that a section renames or copies, and returns their names.
func (s *scan) moves(c *section) (names []string) {
	if (c.renameFrom == "") != (c.renameTo == "") || (c.copyFrom == "") != (c.copyTo == "") {
		s.fail("a rename or copy has only one name")
	}
	if c.renameFrom != "" {
		s.add(Move, c.renameFrom, c.renameTo)
		names = append(names, c.renameFrom, c.renameTo)
	}
	if c.copyFrom != "" {
		s.add(Read, c.copyFrom, "")
		s.add(Create, c.copyTo, "")
		names = append(names, c.copyFrom, c.copyTo)
	}
	return names
}
