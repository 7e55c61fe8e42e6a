// Package printable makes text from outside fit for a terminal, so that it can neither control the terminal nor look like other text.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean returns the text on one line. What doesn't print is escaped as in Go: control characters, those that change the direction of text or
// have no width, invalid UTF-8.
func Clean(text string) string {
	ok := true
	for _, r := range text {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			ok = false
			break
		}
	}
	if ok {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n <= 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	return b.String()
}
