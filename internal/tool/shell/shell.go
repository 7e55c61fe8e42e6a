package shell

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/lazy"
	"github.com/toolguard/toolguard/internal/tool/program"
	"mvdan.cc/sh/v3/syntax"
)

// Dialect is a shell's language.
type Dialect uint8

// The dialects.
const (
	Bash Dialect = iota + 1
	POSIX
	Zsh
)

// The limits bound time and memory. Linux passes no argument above 128 KiB (MAX_ARG_STRLEN), so that no longer script fits into sh -c.
const (
	maxScript     = 128 << 10
	maxOpeners    = 20_000 // what the parser recurses on
	maxNesting    = 150
	maxEval       = 8       // eval and trap within eval
	maxVariables  = 64      // assigned names of which values are tracked
	maxValue      = 4 << 10 // of a tracked value
	maxExpanded   = 4 << 20 // bytes that known variables and braces produce
	maxBraceWords = 256     // words of one brace expansion
	maxDirs       = 4
	maxShown      = 100 // bytes of a word in Unclear
)

var dialects = map[Dialect]struct {
	name    string
	variant syntax.LangVariant
}{
	Bash:  {"bash", syntax.LangBash},
	POSIX: {"sh", syntax.LangPOSIX},
	Zsh:   {"zsh", syntax.LangZsh},
}

// Analyze returns what a script does: each program that it would execute, with the words as far as they're known, the files of its
// redirections, and what isn't clear. The script's Env is what was assigned for it, not the whole environment: with HOME in it, ~ isn't
// known. With an absolute Dir, $PWD is known. Analyze never fails: what can't be parsed is unclear.
func Analyze(script *program.Script, d Dialect) *program.Effects {
	a := newAnalyzer(d)
	a.script(script)
	return &a.out
}

// analyzer collects the effects of one script.
type analyzer struct {
	dialect Dialect
	src     string
	out     program.Effects
	seen    map[program.Unclear]bool
	scan    *scan
	start   *state // before the script's first statement

	named    string // what the current simple command runs, if its text has the name
	defaults int    // expansions with a default that were met
	takes    bool   // the default of these
	expanded int    // bytes, up to maxExpanded
	nested   int    // levels of eval
	mutates  bool   // the script changes variables, functions, options or the directory
}

func newAnalyzer(d Dialect) *analyzer {
	return &analyzer{dialect: d, seen: map[program.Unclear]bool{}}
}

func (a *analyzer) script(s *program.Script) {
	a.src = s.Text
	defer func() {
		if r := recover(); r != nil {
			a.unclear(s.Text, "can't be parsed: "+firstLine(fmt.Sprint(r)))
		}
	}()
	if why := unfit(s.Text); why != "" {
		a.unclear(s.Text, why)
		return
	}
	parser := syntax.NewParser(syntax.Variant(dialects[a.dialect].variant), syntax.KeepComments(true))
	file, err := parser.Parse(strings.NewReader(s.Text), "")
	if err != nil {
		a.unclear(s.Text, "can't be parsed: "+firstLine(err.Error()))
		return
	}
	a.scan = scanFile(a, file)
	if a.scan.tooDeep {
		a.unclear(s.Text, "is nested too deeply")
		return
	}
	for _, v := range s.Env {
		a.scan.assigned[v.Name] = true
		a.risky(v.Name, value{Word: v.Value})
		a.scan.other[v.Name] = a.scan.other[v.Name] || !isNumeric(value{Word: v.Value})
	}
	a.mutates = false
	a.start = a.startState(s)
	a.list(file.Stmts, a.start)
}

// unfit returns why a text isn't given to the parser, or "".
func unfit(text string) string {
	if len(text) > maxScript {
		return fmt.Sprintf("is longer than %d bytes", maxScript)
	}
	if !utf8.ValidString(text) {
		return "isn't valid UTF-8"
	}
	openers := 0
	for i := range len(text) {
		switch c := text[i]; {
		// The parser reads \r\n as a line's end. To a shell, \r is a letter.
		case c < ' ' && c != '\n' && c != '\t', c == 0x7f:
			return fmt.Sprintf("contains the control character %#02x", c)
		case c == '(', c == '{', c == '[', c == '?', c == '`':
			openers++
		}
	}
	if openers > maxOpeners {
		return "has too many brackets"
	}
	if joined().MatchString(text) {
		return "continues a line within an operator"
	}
	if (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1 {
		return "ends in a backslash"
	}
	return ""
}

// joined matches lines that continue within what may be an operator or an expansion. Shells remove the backslash and the line's end first;
// the parser sees two tokens, and in quotes none.
var joined = lazy.Regexp("\\$(\\\\\n)+[^ \t\n]|[(<>&|;{[?*+@!=~#-](\\\\\n)+[$(<>&|;{['\"`!#)\\]-]")

func (a *analyzer) unclear(word, why string) {
	u := program.Unclear{Word: shown(word), Why: why}
	if !a.seen[u] {
		a.seen[u] = true
		a.out.Unclear = append(a.out.Unclear, u)
	}
}

func (a *analyzer) unclearNode(n syntax.Node, why string) { a.unclear(a.source(n), why) }

// source returns the text of a node.
func (a *analyzer) source(n syntax.Node) string {
	from, to := int(n.Pos().Offset()), int(n.End().Offset())
	if from > to || to > len(a.src) {
		return ""
	}
	return a.src[from:to]
}

// shown shortens a word and replaces its control characters.
func shown(word string) string {
	if len(word) > maxShown {
		end := maxShown - len("…")
		for !utf8.RuneStart(word[end]) {
			end--
		}
		word = word[:end] + "…"
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return ' '
		case r < ' ', r >= 0x7f && r < 0xa0, r == utf8.RuneError, r >= 0x2028 && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return '?'
		}
		return r
	}, word)
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return shown(line)
}
