package policyfile

import "bytes"

// token is a lexical element of TOML, coarse enough to serve the nesting limit and the formatter.
type token uint8

const (
	space   token = iota // blanks and tabs
	newline              // \n or \r\n
	comment              // from # to the end of the line
	quoted               // a string of any of the four kinds, with its quotes
	bare                 // keys, numbers, dates, true, false, and dots
	punct                // one of [ ] { } = ,
)

// next splits the first token off src, which isn't empty. It never fails: what isn't TOML comes out as some token, and
// the parser, which reads the same bytes, reports it.
func next(src []byte) (token, int) {
	switch c := src[0]; c {
	case ' ', '\t':
		return space, len(src) - len(bytes.TrimLeft(src, " \t"))
	case '\n':
		return newline, 1
	case '\r':
		if bytes.HasPrefix(src, []byte("\r\n")) {
			return newline, 2
		}
		return bare, 1
	case '#':
		return comment, lineEnd(src)
	case '"', '\'':
		return quoted, stringEnd(src, c)
	case '[', ']', '{', '}', '=', ',':
		return punct, 1
	}
	n := 1
	for n < len(src) && !endsBare[src[n]] {
		n++
	}
	return bare, n
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
		t, n := next(src[i:])
		if t == punct {
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
