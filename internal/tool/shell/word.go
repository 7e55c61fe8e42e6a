package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/toolguard/toolguard/internal/lazy"
	"github.com/toolguard/toolguard/internal/tool/program"
)

// atom is a byte of a word, or an expansion in it. A quoted NUL stands for quotes with nothing in them.
type atom struct {
	b      byte
	quoted bool
	part   *expansion // instead of b
}

var mark = atom{quoted: true}

// expansion is a part of a word whose value isn't known, or begins with that of HOME.
type expansion struct {
	many    bool // may become several words or none
	numeric bool
	home    bool
}

// position is where a word is.
type position uint8

const (
	argument   position = iota // braces, patterns and splitting apply
	single                     // the value of an assignment, what case compares: none of them
	target                     // of a redirection: one word, or an error
	quotedPart                 // in double quotes, a here-document or arithmetic
)

// words evaluates the words of a command.
func (a *analyzer) words(ws []*syntax.Word, st *state) (all []value) {
	for _, w := range ws {
		all = append(all, a.word(w, argument, st)...)
	}
	return all
}

// one evaluates a word that isn't split.
func (a *analyzer) one(w *syntax.Word, st *state) value {
	if w == nil {
		return literal("")
	}
	return a.word(w, single, st)[0]
}

// word evaluates a word, and the commands in it. It returns at least one value.
func (a *analyzer) word(w *syntax.Word, c position, st *state) []value {
	source := a.source(w)
	atoms := a.parts(w.Parts, c == quotedPart, st)
	if a.dialect == Zsh {
		a.zshWord(source, atoms)
	}
	if c == single || c == quotedPart {
		return []value{a.finish(atoms, source, c)}
	}
	if a.dialect != Zsh && mayBrace(atoms) && slices.ContainsFunc(w.Parts, extends) {
		return []value{{Word: program.Word{Text: source, Many: true}}}
	}
	alternatives, ok := a.braces(atoms)
	if !ok || a.dialect == POSIX && len(alternatives) > 1 { // sh may be bash
		v := a.finish(atoms[:slices.IndexFunc(atoms, func(t atom) bool { return t.is('{') })], source, c)
		prefix := v.Text
		if !v.Known {
			prefix = v.Prefix
		}
		return []value{{Word: program.Word{Text: source, Prefix: prefix, Home: v.Home, Many: true}}}
	}
	values := make([]value, 0, len(alternatives))
	for _, alternative := range alternatives {
		if len(alternative) > 0 || len(alternatives) == 1 || a.dialect == Zsh { // a word without even quotes vanishes
			values = append(values, a.finish(alternative, source, c))
		}
	}
	return values
}

// extends reports whether a part may expand something else after bash has expanded the braces around it: $x{y,z} is $xy $xz.
func extends(part syntax.WordPart) bool {
	switch part := part.(type) {
	case *syntax.Lit:
		return dollar().MatchString(part.Value)
	case *syntax.ParamExp:
		return part.Short
	}
	return false
}

func (t atom) is(c byte) bool { return t.part == nil && !t.quoted && t.b == c }

// finish makes a value of the atoms of a word: tildes, patterns, unknown parts.
func (a *analyzer) finish(atoms []atom, source string, c position) value {
	v := value{Word: program.Word{Known: true}}
	var text strings.Builder
	stop := func(many bool) {
		if v.Known {
			v.Known, v.Prefix = false, text.String()
		}
		v.Many = v.Many || many && c == argument
	}
	splits := false
	digits, opaque := true, false
	for i, t := range atoms {
		switch {
		case t == mark:
			continue
		case t.part != nil && t.part.home && first(atoms, i):
			v.Home = true
			text.WriteByte('~')
			digits = false
			continue
		case t.part != nil:
			opaque = true
			digits = digits && t.part.numeric
			stop(t.part.many && (!t.part.numeric || len(atoms) == 1)) // a number is split into none at most
			splits = splits || t.part.many && !t.part.numeric
			continue
		case t.is('~') && i == 0 && (len(atoms) == 1 || atoms[1].is('/') || c == single && atoms[1].is(':')):
			v.Home = true
		case t.is('~') && (i == 0 || atoms[i-1].is('=') || atoms[i-1].is(':') || a.dialect == Zsh):
			stop(a.dialect == Zsh)
		case c != single && c != quotedPart && isPattern(atoms, i, a.dialect):
			stop(true)
		}
		digits = digits && t.b >= '0' && t.b <= '9'
		text.WriteByte(t.b)
	}
	v.Text = text.String()
	if v.Home && a.scan.assigned["HOME"] {
		v = value{Word: program.Word{Many: c == argument}}
	}
	if !v.Known {
		v.numeric = opaque && digits
		if splits && v.Many { // only the first of the words would begin so
			v.Prefix, v.Home = "", false
		}
		v.Text = source
	}
	return v
}

// first reports whether nothing but quotes is before an atom.
func first(atoms []atom, i int) bool {
	return !slices.ContainsFunc(atoms[:i], func(t atom) bool { return t != mark })
}

func isPattern(atoms []atom, i int, d Dialect) bool {
	if atoms[i].quoted {
		return false
	}
	switch atoms[i].b {
	case '*', '?':
		return true
	case '[':
		return slices.ContainsFunc(atoms[i+1:], func(t atom) bool { return t.part != nil || t.b == ']' })
	case '<', '>', '(', ')', '|':
		return d == Zsh
	}
	return false
}

// parts evaluates the parts of a word.
func (a *analyzer) parts(parts []syntax.WordPart, quoted bool, st *state) (atoms []atom) {
	for i, part := range parts {
		switch part := part.(type) {
		case *syntax.Lit:
			if a.dialect == POSIX && !quoted && i+1 < len(parts) && dollarQuote(part.Value, parts[i+1]) { // sh may be bash
				atoms = append(atoms, atom{part: &expansion{}})
			}
			if a.dialect == Zsh && dollar().MatchString(part.Value) {
				a.unclearNode(part, "is an expansion of zsh that isn't understood")
			}
			atoms = appendLit(atoms, part.Value, quoted)
		case *syntax.SglQuoted:
			atoms = append(atoms, mark)
			atoms = append(atoms, a.singleQuoted(part)...)
		case *syntax.DblQuoted:
			inner := a.parts(part.Parts, true, st)
			if part.Dollar { // the text itself without a translation
				a.unclearNode(part, "is text that a translation may replace")
			}
			atoms = append(atoms, mark)
			atoms = append(atoms, inner...)
		case *syntax.ParamExp:
			atoms = append(atoms, a.param(part, quoted, st)...)
		case *syntax.CmdSubst:
			a.list(part.Stmts, st)
			if part.TempFile || part.ReplyVar {
				a.unclearNode(part, "runs commands in this shell")
			}
			atoms = append(atoms, atom{part: &expansion{many: !quoted, numeric: a.scan.counts(part)}})
		case *syntax.ProcSubst:
			a.list(part.Stmts, st)
			atoms = append(atoms, atom{part: &expansion{}})
		case *syntax.ArithmExp:
			a.arith(part.X, st)
			atoms = append(atoms, atom{part: &expansion{numeric: true}})
		case *syntax.ExtGlob:
			atoms = append(atoms, atom{part: &expansion{many: true}})
		default:
			a.unclearNode(part, "isn't understood")
			atoms = append(atoms, atom{part: &expansion{many: true}})
		}
	}
	return atoms
}

// dollarQuote reports whether text and quotes after it are $'…' or $"…" to other shells.
func dollarQuote(text string, next syntax.WordPart) bool {
	switch next.(type) {
	case *syntax.SglQuoted, *syntax.DblQuoted:
		return dollar().MatchString(text) && strings.HasSuffix(text, "$")
	}
	return false
}

// dollar matches text with a $ that isn't quoted: the parser doesn't know what it expands.
var dollar = lazy.Regexp(`(?s)^([^\\$]|\\.)*\$`)

func appendLit(atoms []atom, text string, quoted bool) []atom {
	if quoted {
		return appendQuoted(atoms, unescapeQuoted(text, `"`))
	}
	for i := 0; i < len(text); i++ {
		escaped := text[i] == '\\' && i+1 < len(text)
		if escaped {
			i++
		}
		atoms = append(atoms, atom{b: text[i], quoted: escaped})
	}
	return atoms
}

func appendQuoted(atoms []atom, text string) []atom {
	for i := range len(text) {
		atoms = append(atoms, atom{b: text[i], quoted: true})
	}
	return atoms
}

func (a *analyzer) singleQuoted(q *syntax.SglQuoted) []atom {
	text := q.Value
	if q.Dollar {
		decoded, ok := decodeDollar(text)
		if !ok || a.dialect == Zsh && (strings.Contains(text, `\"`) || strings.Contains(text, `\?`)) {
			return []atom{{part: &expansion{}}}
		}
		text = decoded
	}
	return appendQuoted(nil, text)
}

// hereBody evaluates the commands in a here-document, where " isn't special.
func (a *analyzer) hereBody(w *syntax.Word, st *state) {
	for _, part := range w.Parts {
		if _, ok := part.(*syntax.Lit); !ok {
			a.parts([]syntax.WordPart{part}, true, st)
		}
	}
}
