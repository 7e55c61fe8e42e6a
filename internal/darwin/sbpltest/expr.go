package sbpltest

import (
	"fmt"
	"strings"
)

// expr is an S-expression: a list, or an atom.
type expr struct {
	kind kind
	text string // of an atom, without quotes and escapes
	list []expr
	at   int // the offset in the text
}

type kind uint8

const (
	list kind = iota
	symbol
	text       // "…"
	expression // #"…"
)

// head returns the symbol that a list begins with; "" if there is none.
func (e *expr) head() string {
	if e.kind != list || len(e.list) == 0 || e.list[0].kind != symbol {
		return ""
	}
	return e.list[0].text
}

// args returns what follows the head.
func (e *expr) args() []expr { return e.list[1:] }

// scanner cuts a profile's text.
type scanner struct {
	in string
	at int
}

func (s *scanner) fail(format string, args ...any) error {
	line := 1 + strings.Count(s.in[:min(s.at, len(s.in))], "\n")
	return fmt.Errorf("line %d: %w", line, fmt.Errorf(format, args...))
}

// skip goes past blanks and comments.
func (s *scanner) skip() {
	for s.at < len(s.in) {
		switch c := s.in[s.at]; {
		case c == ';':
			if end := strings.IndexByte(s.in[s.at:], '\n'); end >= 0 {
				s.at += end
			} else {
				s.at = len(s.in)
			}
		case strings.IndexByte(" \t\r\n", c) >= 0:
			s.at++
		default:
			return
		}
	}
}

// expressions reads all expressions of the text.
func (s *scanner) expressions() (all []expr, err error) {
	for s.skip(); s.at < len(s.in); s.skip() {
		e, err := s.next(0)
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

const maxDepth = 64

func (s *scanner) next(depth int) (expr, error) {
	start := s.at
	switch c := s.in[s.at]; {
	case depth > maxDepth:
		return expr{}, s.fail("nested too deeply")
	case c == '(':
		return s.parentheses(depth)
	case c == ')':
		return expr{}, s.fail("unexpected )")
	case c == '"':
		s.at++
		t, err := s.quoted()
		return expr{kind: text, text: t, at: start}, err
	case c == '\'':
		s.at++
		if s.skip(); s.at >= len(s.in) {
			return expr{}, s.fail("a quote of nothing")
		}
		e, err := s.next(depth + 1)
		return expr{list: []expr{{kind: symbol, text: "quote"}, e}, at: start}, err
	case strings.HasPrefix(s.in[s.at:], `#"`):
		s.at += 2
		t, err := s.raw()
		return expr{kind: expression, text: t, at: start}, err
	}
	for s.at < len(s.in) && strings.IndexByte(" \t\r\n();\"", s.in[s.at]) < 0 {
		s.at++
	}
	word := s.in[start:s.at]
	if strings.ContainsAny(word, "#'`,|\\") {
		return expr{}, s.fail("%q isn't a symbol", word)
	}
	return expr{kind: symbol, text: word, at: start}, nil
}

func (s *scanner) parentheses(depth int) (expr, error) {
	e := expr{at: s.at}
	s.at++
	for {
		s.skip()
		switch {
		case s.at >= len(s.in):
			return e, s.fail("a ( without )")
		case s.in[s.at] == ')':
			s.at++
			return e, nil
		}
		child, err := s.next(depth + 1)
		if err != nil {
			return e, err
		}
		e.list = append(e.list, child)
	}
}

// quoted reads a string after its first quote. Scheme's strings have few escapes; any other is an error.
func (s *scanner) quoted() (string, error) {
	var b strings.Builder
	for s.at < len(s.in) {
		c := s.in[s.at]
		s.at++
		switch {
		case c == '"':
			return b.String(), nil
		case c == 0 || c == '\n':
			return "", s.fail("a control character in a string")
		case c != '\\':
			b.WriteByte(c)
			continue
		case s.at >= len(s.in):
			return "", s.fail("a string without an end")
		}
		e := s.in[s.at]
		s.at++
		i := strings.IndexByte(`"\nt`, e)
		if i < 0 {
			return "", s.fail("the escape \\%c in a string", e)
		}
		b.WriteByte("\"\\\n\t"[i])
	}
	return "", s.fail("a string without an end")
}

// raw reads a regular expression after its first quote. Only \" is an escape; every other backslash is the expression's own.
func (s *scanner) raw() (string, error) {
	var b strings.Builder
	for s.at < len(s.in) {
		c := s.in[s.at]
		s.at++
		switch {
		case c == '"':
			return b.String(), nil
		case c == 0 || c == '\n':
			return "", s.fail("a control character in a regular expression")
		case c == '\\' && s.at < len(s.in):
			if s.in[s.at] != '"' {
				b.WriteByte(c)
			}
			b.WriteByte(s.in[s.at])
			s.at++
			continue
		}
		b.WriteByte(c)
	}
	return "", s.fail("a regular expression without an end")
}

// Forms cuts a profile's text into its forms.
func Forms(profile string) (forms []string, err error) {
	s := scanner{in: profile}
	for s.skip(); s.at < len(s.in); s.skip() {
		start := s.at
		if _, err := s.next(0); err != nil {
			return nil, err
		}
		forms = append(forms, s.in[start:s.at])
	}
	return forms, nil
}
