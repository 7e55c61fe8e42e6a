package sbpltest

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// pattern is a regular expression of a profile.
type pattern struct {
	exact  *regexp.Regexp
	folded *regexp.Regexp // exact without regard to case, once it's needed
}

// compile compiles a regular expression. It accepts only what every description of the matcher has: characters, escaped punctuation, .,
// sets, groups, |, *, +, ?, ^ and $. Anything else is an error, because macOS may accept it and then match nothing.
func compile(expr string) (*pattern, error) {
	err := checkRegex(expr)
	if err == nil {
		var exact *regexp.Regexp
		if exact, err = regexp.Compile("(?s)" + expr); err == nil { // a dot also matches a newline
			return &pattern{exact: exact}, nil
		}
	}
	return nil, fmt.Errorf("the regular expression %q: %w", expr, err)
}

func (p *pattern) matches(m Model, path string) bool {
	if !m.FoldRegex {
		return p.exact.MatchString(path)
	}
	if p.folded == nil {
		p.folded = regexp.MustCompile("(?i)" + p.exact.String())
	}
	return p.folded.MatchString(path)
}

func checkRegex(expr string) error {
	if expr == "" {
		return errors.New("empty")
	}
	last := byte('(') // what can't be repeated: ( and | also stand for the beginning
	for i := 0; i < len(expr); i++ {
		c := expr[i]
		switch {
		case c == '\\':
			if i++; i >= len(expr) || isWord(expr[i]) {
				return errors.New(`a backslash before something that isn't punctuation`)
			}
			last = 'x'
			continue
		case c == '{', c == '}':
			return errors.New("a repetition with a number, or a brace that isn't escaped")
		case c == ']':
			return errors.New("a ] that isn't escaped")
		case c == '[':
			end, err := checkSet(expr[i:])
			if err != nil {
				return err
			}
			i += end
			last = 'x'
			continue
		case strings.IndexByte("*+?", c) >= 0 && strings.IndexByte("(|^*+?", last) >= 0:
			return fmt.Errorf("%c after %c", c, last)
		case (c == '|' || c == ')') && (last == '(' || last == '|'):
			return errors.New("an empty alternative")
		}
		last = c
	}
	if last == '|' {
		return errors.New("an empty alternative")
	}
	return nil
}

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// checkSet checks a set, with which s begins, and returns the offset of its end. The matcher compares bytes, so a set has only ASCII.
func checkSet(s string) (end int, err error) {
	body := strings.TrimPrefix(s[1:], "^")
	size := strings.IndexByte(body, ']')
	if size <= 0 {
		return 0, errors.New("a set without an end, or an empty one")
	}
	for i := range size {
		if c := body[i]; c == '\\' || c == '[' || c >= 0x80 {
			return 0, fmt.Errorf("%q in a set", c)
		}
	}
	return len(s) - len(body) + size, nil
}
