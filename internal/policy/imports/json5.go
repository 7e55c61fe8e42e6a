package imports

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// readJSON5 reads an object of JSON5, of which JSON is a part. A key that is given twice is an error.
func readJSON5(src []byte) (map[string]any, error) {
	if !utf8.Valid(src) {
		return nil, errUTF8
	}
	p := &json5{src: strings.TrimPrefix(string(src), "\ufeff")}
	v := p.value(0)
	if p.blanks(); p.err == nil && p.at < len(p.src) {
		p.fail("text after the value")
	}
	if p.err != nil {
		return nil, p.err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errObject
	}
	return m, nil
}

type json5 struct {
	src    string
	at     int
	values int
	err    error
}

func (p *json5) fail(format string, args ...any) {
	if p.err == nil {
		line := 1 + strings.Count(p.src[:min(p.at, len(p.src))], "\n")
		p.err = fmt.Errorf("line %d: %s", line, fmt.Sprintf(format, args...))
	}
	p.at = len(p.src)
}

// blanks skips white space and comments.
func (p *json5) blanks() {
	for p.at < len(p.src) {
		rest := p.src[p.at:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case strings.ContainsRune("\t\v\f\n\r \u00a0\u2028\u2029\ufeff", r) || unicode.Is(unicode.Zs, r):
			p.at += size
		case strings.HasPrefix(rest, "//"):
			if n := strings.IndexAny(rest, "\n\r\u2028\u2029"); n >= 0 {
				p.at += n
			} else {
				p.at = len(p.src)
			}
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest[2:], "*/")
			if n < 0 {
				p.fail("a comment doesn't end")
				return
			}
			p.at += n + 4
		default:
			return
		}
	}
}

// next skips blanks and returns the next byte, 0 at the end.
func (p *json5) next() byte {
	if p.blanks(); p.at < len(p.src) {
		return p.src[p.at]
	}
	return 0
}

func (p *json5) value(depth int) any {
	if p.values++; p.values > maxValues {
		p.err = errValues
		p.at = len(p.src)
	}
	if depth > maxDepth {
		p.err = errDepth
		p.at = len(p.src)
	}
	switch c := p.next(); c {
	case 0:
		p.fail("a value is missing")
		return nil
	case '{':
		return p.object(depth)
	case '[':
		return p.list(depth)
	case '"', '\'':
		return p.quoted()
	}
	switch w := p.word(); w {
	case "true", "false":
		return w == "true"
	case "null":
		return nil
	default:
		return p.number(w)
	}
}

// word takes the text up to the next blank or punctuation.
func (p *json5) word() string {
	rest := p.src[p.at:]
	n := strings.IndexAny(rest, "\t\v\f\n\r \u00a0\u2028\u2029,:[]{}\"'/")
	if n < 0 {
		n = len(rest)
	}
	p.at += n
	return rest[:n]
}

func (p *json5) number(w string) any {
	digits := strings.TrimLeft(w, "+-")
	if digits == "" || len(w)-len(digits) > 1 || strings.ContainsAny(digits, "_pP") && !strings.HasPrefix(digits, "0x") {
		p.fail("%q is no value", w)
		return nil
	}
	hex := strings.HasPrefix(digits, "0x") || strings.HasPrefix(digits, "0X")
	if hex && !strings.ContainsAny(digits, "_.pP") {
		if n, err := strconv.ParseInt(strings.TrimPrefix(w, "+"), 0, 64); err == nil {
			return n
		}
	}
	if n, err := strconv.ParseInt(w, 10, 64); err == nil && !hex {
		return n
	}
	f, err := strconv.ParseFloat(w, 64)
	if err != nil || hex || math.IsInf(f, 0) || math.IsNaN(f) {
		p.fail("%q is no value", w)
		return nil
	}
	return f
}

func (p *json5) object(depth int) any {
	m := map[string]any{}
	for p.at++; p.err == nil && p.next() != '}'; {
		key := p.key()
		if _, twice := m[key]; twice && p.err == nil {
			p.fail("key %q is given twice", key)
		}
		if p.next() != ':' {
			p.fail("a : is missing after key %q", key)
			return nil
		}
		p.at++
		m[key] = p.value(depth + 1)
		if !p.comma('}') {
			return nil
		}
	}
	p.at++
	return m
}

func (p *json5) list(depth int) any {
	l := []any{}
	for p.at++; p.err == nil && p.next() != ']'; {
		l = append(l, p.value(depth+1))
		if !p.comma(']') {
			return nil
		}
	}
	p.at++
	return l
}

// comma skips a comma, which may be missing at the end.
func (p *json5) comma(end byte) bool {
	switch p.next() {
	case ',':
		p.at++
	case end:
	default:
		p.fail("a comma or %c is missing", end)
	}
	return p.err == nil
}

// key takes a quoted key or an identifier.
func (p *json5) key() string {
	if c := p.next(); c == '"' || c == '\'' {
		return p.quoted()
	}
	w := p.word()
	for n, r := range w {
		if !unicode.IsLetter(r) && r != '_' && r != '$' && (n == 0 || !unicode.IsDigit(r)) {
			w = ""
			break
		}
	}
	if w == "" {
		p.fail("a key is missing, or needs quotes")
	}
	return w
}

func (p *json5) quoted() string {
	quote := rune(p.src[p.at])
	p.at++
	var b strings.Builder
	for p.at < len(p.src) {
		r, size := utf8.DecodeRuneInString(p.src[p.at:])
		p.at += size
		switch {
		case r == quote:
			return b.String()
		case r == '\\':
			if err := p.escape(&b); err != nil {
				p.fail("%s", err)
			}
		case r == '\n' || r == '\r':
			p.fail("a string doesn't end on its line")
		default:
			b.WriteRune(r)
		}
	}
	p.fail("a string doesn't end")
	return ""
}

var errEscape = errors.New("an escape isn't one of JSON5's")

// escapes are those of one character.
var escapes = map[byte]string{'b': "\b", 'f': "\f", 'n': "\n", 'r': "\r", 't': "\t", 'v': "\v", '0': "\x00", '\n': "", '"': `"`, '\'': "'", '\\': `\`, '/': "/"}

func (p *json5) escape(b *strings.Builder) error {
	if p.at >= len(p.src) {
		return errEscape
	}
	c := p.src[p.at]
	p.at++
	if s, ok := escapes[c]; ok {
		b.WriteString(s)
		return nil
	}
	switch c {
	case '\r':
		p.at += len(p.src[p.at:]) - len(strings.TrimPrefix(p.src[p.at:], "\n"))
		return nil
	case 'x':
		r, err := p.hex(2)
		b.WriteRune(r)
		return err
	case 'u':
		r, err := p.hex(4)
		if utf16.IsSurrogate(r) && strings.HasPrefix(p.src[p.at:], `\u`) {
			p.at += 2
			low, bad := p.hex(4)
			r, err = utf16.DecodeRune(r, low), errors.Join(err, bad)
		}
		if utf16.IsSurrogate(r) || r == unicode.ReplacementChar {
			return errEscape
		}
		b.WriteRune(r)
		return err
	}
	return errEscape
}

func (p *json5) hex(digits int) (rune, error) {
	if len(p.src)-p.at < digits {
		return 0, errEscape
	}
	n, err := strconv.ParseUint(p.src[p.at:p.at+digits], 16, 32)
	if p.at += digits; err != nil {
		return 0, errEscape
	}
	return rune(n), nil
}
