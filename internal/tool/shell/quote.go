package shell

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// unescape removes the backslashes of unquoted text.
func unescape(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			i++
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

// unescapeQuoted removes the backslashes of text in double quotes, or of a here-document. special is what a backslash quotes there,
// besides $, ` and \.
func unescapeQuoted(text, special string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+1 < len(text) {
			switch next := text[i+1]; {
			case next == '\n':
				i++
				continue
			case next == '$', next == '`', next == '\\', strings.IndexByte(special, next) >= 0:
				i++
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}

var simpleEscapes = map[byte]byte{
	'a': 7, 'b': 8, 'e': 27, 'E': 27, 'f': 12, 'n': 10, 'r': 13, 't': 9, 'v': 11, '\\': '\\', '\'': '\'', '"': '"', '?': '?',
}

// decodeDollar decodes the text of $'…'. It isn't ok where shells or versions differ: a value beyond ASCII, NUL, \c, an unknown escape.
func decodeDollar(text string) (decoded string, ok bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			b.WriteByte(text[i])
			continue
		}
		if i++; i == len(text) {
			return b.String(), false
		}
		if c, simple := simpleEscapes[text[i]]; simple {
			b.WriteByte(c)
			continue
		}
		digits, base, skip := "", 16, 1
		switch c := text[i]; {
		case c >= '0' && c <= '7':
			digits, base, skip = leading(text[i:], 3, "01234567"), 8, 0
		case c == 'x':
			digits = leading(text[i+1:], 2, hexDigits)
		case c == 'u':
			digits = leading(text[i+1:], 4, hexDigits)
		case c == 'U':
			digits = leading(text[i+1:], 8, hexDigits)
		}
		n, err := strconv.ParseUint(digits, base, 32)
		if err != nil || n == 0 || n >= utf8.RuneSelf {
			return b.String(), false
		}
		b.WriteByte(byte(n))
		i += skip + len(digits) - 1
	}
	return b.String(), true
}

const hexDigits = "0123456789abcdefABCDEF"

func leading(text string, n int, of string) string {
	text = text[:min(n, len(text))]
	return text[:len(text)-len(strings.TrimLeft(text, of))]
}
