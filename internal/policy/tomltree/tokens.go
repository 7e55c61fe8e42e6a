package tomltree

import "bytes"

// Token is a lexical element of TOML, coarse enough to serve the nesting limit and the formatter.
type Token uint8

const (
	Space       Token = iota // blanks and tabs
	Newline                  // \n or \r\n
	Comment                  // from # to the end of the line
	Quoted                   // a string of any of the four kinds, with its quotes
	Bare                     // keys, numbers, dates, true, false, and dots
	Punctuation              // one of [ ] { } = ,
)

// NextToken splits the first token off src, which isn't empty. It never fails: what isn't TOML comes out as some token, and
// the parser, which reads the same bytes, reports it.
func NextToken(src []byte) (Token, int) {
	switch c := src[0]; c {
	case ' ', '\t':
		return Space, len(src) - len(bytes.TrimLeft(src, " \t"))
	case '\n':
		return Newline, 1
	case '\r':
		if bytes.HasPrefix(src, []byte("\r\n")) {
			return Newline, 2
		}
		return Bare, 1
	case '#':
		return Comment, lineEnd(src)
	case '"', '\'':
		return Quoted, stringEnd(src, c)
	case '[', ']', '{', '}', '=', ',':
		return Punctuation, 1
	}
	n := 1
	for n < len(src) && !endsBare[src[n]] {
		n++
	}
	return Bare, n
}

// endsBare marks the bytes at which a bare token ends.
var endsBare = [256]bool{
	' ': true, '\t': true, '\r': true, '\n': true, '#': true, '"': true, '\'': true,
	'[': true, ']': true, '{': true, '}': true, '=': true, ',': true,
}

// lineEnd is the offset of the line break that ends a comment, or of the end.
func lineEnd(src []byte) int {
	n := bytes.IndexByte(src, '\n')
	if n == -1 {
		return len(src)
	}
	if src[n-1] == '\r' {
		n--
	}
	return n
}

// stringEnd is the length of the string that src begins with; an unterminated one ends at its line, or at the end of
// the file when it's a multi-line string.
func stringEnd(src []byte, quote byte) int {
	three := []byte{quote, quote, quote}
	multi := bytes.HasPrefix(src, three)
	i := 1
	if multi {
		i = 3
	}
	for ; i < len(src); i++ {
		switch {
		case src[i] == '\\' && quote == '"':
			i++
		case src[i] == '\n' && !multi:
			return i
		case src[i] == quote && !multi:
			return i + 1
		case bytes.HasPrefix(src[i:], three):
			// Up to two quotes may come directly before the closing three.
			for i += 3; i < len(src) && src[i] == quote; i++ {
			}
			return i
		}
	}
	return len(src)
}

// tooDeep is the offset of the first bracket nested deeper than limit, or -1. The TOML parser recurses for every
// bracket, and a goroutine whose stack overflows can't be recovered, so this has to be known before it runs.
func tooDeep(src []byte, limit int) int {
	depth := 0
	for i := 0; i < len(src); {
		t, n := NextToken(src[i:])
		if t == Punctuation {
			switch src[i] {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(depth-1, 0)
			}
			if depth > limit {
				return i
			}
		}
		i += n
	}
	return -1
}
