// Package tomlformat lays TOML files out in the one usual form, and adds to a list of one.
package tomlformat

import (
	"bytes"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// Format lays a file out in the one way: a blank line before each header, one space around = and after commas, lists that
// are broken into lines indented by two, no blanks at the ends of lines. Comments and the order of everything stay. name
// is for errors, which are about TOML alone: a policy with mistakes can be formatted too.
func Format(name string, src []byte) ([]byte, error) {
	before, serr := tomltree.Parse(src)
	if serr != nil {
		return nil, &policy.Error{Position: position(name, src, serr.Off), Msg: serr.Msg, Hint: serr.Hint}
	}
	p := printer{src: src}
	for len(p.src) > 0 {
		p.line()
	}
	out := layOut(p.lines)
	// A formatter that changes what a policy grants would be worse than none, so this isn't left to tests alone.
	if after, serr := tomltree.Parse(out); serr != nil || !sameTree(before, after) {
		return nil, &policy.Error{Position: policy.Position{File: name}, Msg: "the formatted file would mean something else"}
	}
	return out, nil
}

// position converts an offset. Columns count characters, as editors do.
func position(name string, src []byte, off int) policy.Position {
	before := src[:min(off, len(src))]
	line := before[bytes.LastIndexByte(before, '\n')+1:]
	return policy.Position{File: name, Line: 1 + bytes.Count(before, []byte("\n")), Col: 1 + utf8.RuneCount(line)}
}

// lineKind is the content of a line of the output.
type lineKind uint8

const (
	blankLine lineKind = iota
	commentLine
	headerLine
	keyLine
)

// statement is a line of the output, or several when a value spans lines.
type statement struct {
	kind lineKind
	text string
}

// printer writes statement after statement.
type printer struct {
	src   []byte // the unread part
	lines []statement
	out   strings.Builder
	depth int
	last  string // the token before, or "\n", or "" at the beginning
	tight bool   // in a header or a key, where blanks have no meaning
	blank bool   // an empty line inside of a list is due
}

// line removes one statement from src.
func (p *printer) line() {
	p.out.Reset()
	p.last, p.depth, p.tight, p.blank = "", 0, true, false
	kind := blankLine
	for len(p.src) > 0 {
		t, n := tomltree.NextToken(p.src)
		text := string(p.src[:n])
		p.src = p.src[n:]
		if t == tomltree.Newline && p.depth == 0 {
			break
		}
		if kind == blankLine && t != tomltree.Space {
			kind = kindOf(t, text)
		}
		p.token(t, text)
	}
	p.lines = append(p.lines, statement{kind, p.out.String()})
}

func kindOf(t tomltree.Token, text string) lineKind {
	switch {
	case t == tomltree.Comment:
		return commentLine
	case text == "[":
		return headerLine
	}
	return keyLine
}

func (p *printer) token(t tomltree.Token, text string) {
	switch t {
	case tomltree.Space:
		if !p.tight {
			p.last += " " // remembered: two bare words keep a blank between them
		}
		return
	case tomltree.Newline:
		p.blank = p.blank || strings.TrimSuffix(p.last, " ") == "\n"
		p.last = "\n"
		return
	case tomltree.Comment:
		p.before(text)
		p.out.WriteString(strings.TrimRight(text, " \t\r"))
		p.last = text
		return
	}
	if text == "]" || text == "}" {
		p.depth--
	}
	p.before(text)
	p.out.WriteString(text)
	switch text {
	case "[", "{":
		p.depth++
	case "=":
		p.tight = false
	}
	p.last = text
}

// before writes the space between the previous token and text.
func (p *printer) before(text string) {
	last := strings.TrimSuffix(p.last, " ")
	switch {
	case last == "", text == "]" && last == ",":
	case last == "\n":
		if p.blank && text != "]" {
			p.out.WriteByte('\n')
		}
		p.blank = false
		p.out.WriteString("\n" + strings.Repeat("  ", max(p.depth, 0)))
	case text[0] == '#', text == "=", last == "=", last == ",":
		p.out.WriteByte(' ')
	case last == "{" && text != "}", text == "}" && last != "{":
		p.out.WriteByte(' ')
	case last != p.last && !strings.ContainsAny(last[len(last)-1:]+text[:1], "[]{},"):
		p.out.WriteByte(' ')
	}
}

// layOut sets the blank lines and puts everything together.
func layOut(lines []statement) []byte {
	var kept []statement
	for _, s := range lines {
		after := blankLine
		if len(kept) > 0 {
			after = kept[len(kept)-1].kind
		}
		switch {
		case s.kind == blankLine && (after == blankLine || after == headerLine):
			continue
		case s.kind == headerLine:
			kept = spaceAbove(kept)
		}
		kept = append(kept, s)
	}
	for len(kept) > 0 && kept[len(kept)-1].kind == blankLine {
		kept = kept[:len(kept)-1]
	}
	var out bytes.Buffer
	for _, s := range kept {
		out.WriteString(s.text + "\n")
	}
	return out.Bytes()
}

// spaceAbove puts a blank line above the comments that a header, which comes next, has directly above it.
func spaceAbove(kept []statement) []statement {
	i := len(kept)
	for i > 0 && kept[i-1].kind == commentLine {
		i--
	}
	if i == 0 || kept[i-1].kind == blankLine {
		return kept
	}
	return slices.Insert(kept, i, statement{})
}

// sameTree reports whether two trees have the same meaning.
func sameTree(a, b *tomltree.Node) bool {
	if a.Kind != b.Kind || a.Text != b.Text || a.Int != b.Int || a.Bool != b.Bool || a.Origin != b.Origin ||
		len(a.Items) != len(b.Items) || len(a.Keys) != len(b.Keys) {
		return false
	}
	for i := range a.Items {
		if !sameTree(a.Items[i], b.Items[i]) {
			return false
		}
	}
	for i := range a.Keys {
		if a.Keys[i].Name != b.Keys[i].Name || !sameTree(a.Keys[i].Node, b.Keys[i].Node) {
			return false
		}
	}
	return true
}
