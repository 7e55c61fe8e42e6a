package ask

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// invisible are printable characters that show nothing, or that a font may show as nothing.
var invisible = map[rune]bool{
	0x115F: true, 0x1160: true, 0x17B4: true, 0x17B5: true, 0x2800: true, 0x3164: true, 0xFFA0: true, 0xFFFC: true, 0xFFFD: true,
}

// shown reports whether a character shows as itself, and changes nothing around it. Nonspacing marks change the letter before them.
func shown(r rune) bool {
	return unicode.IsPrint(r) && !invisible[r] && !unicode.In(r, unicode.Mn, unicode.Me) && (r < 0xE0000 || r > 0xE0FFF)
}

// Escape makes text from outside fit for a terminal, on one line: controls, direction marks, zero-width and invisible characters,
// nonspacing marks and broken UTF-8 are escaped as in Go.
func Escape(text string) string {
	var b strings.Builder
	escape(&b, text, "")
	return b.String()
}

// escape escapes also the characters of more, with a backslash.
func escape(b *strings.Builder, text, more string) (changed bool) {
	for len(text) > 0 {
		r, n := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && n <= 1:
			changed = true
			b.WriteString(`\x` + hex(text[0]>>4) + hex(text[0]&15))
		case strings.ContainsRune(more, r):
			changed = true
			b.WriteString(`\` + string(r))
		case shown(r):
			b.WriteRune(r)
		case unicode.IsPrint(r):
			changed = true
			b.WriteString(number(r))
		default:
			changed = true
			q := strconv.QuoteRune(r)
			b.WriteString(q[1 : len(q)-1])
		}
		text = text[n:]
	}
	return changed
}

func hex(n byte) string { return string("0123456789abcdef"[n]) }

// number is a character as Go escapes it.
func number(r rune) string {
	digits := strconv.FormatInt(int64(r), 16)
	if r > 0xFFFF {
		return `\U` + strings.Repeat("0", 8-len(digits)) + digits
	}
	return `\u` + strings.Repeat("0", 4-len(digits)) + digits
}

// plainWord has the characters that need no quotes.
const plainWord = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=@%+,"

// Quote is a word as a shell takes it, so that its beginning and its end show, and that no two words look alike. What Escape escapes
// is written as $'…' has it.
func Quote(word string) string {
	if word != "" && strings.Trim(word, plainWord) == "" {
		return word
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool {
		return !unicode.IsLetter(r) && !strings.ContainsRune(plainWord, r) || !shown(r)
	}) {
		return word // letters of other scripts
	}
	var b strings.Builder
	if !escape(&b, word, `'\`) {
		return "'" + b.String() + "'"
	}
	return "$'" + b.String() + "'"
}

// QuoteAll quotes the words of a command line.
func QuoteAll(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = Quote(w)
	}
	return strings.Join(quoted, " ")
}

// Width is how many columns of a terminal escaped text takes.
func Width(text string) (n int) {
	for _, r := range text {
		n += columns(r)
	}
	return n
}

func columns(r rune) int {
	if r < 0x300 {
		return 1
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// Cut cuts escaped text to a width; the cut shows as "…".
func Cut(text string, columnsLeft int) string {
	if Width(text) <= columnsLeft {
		return text
	}
	at := 0
	for i, r := range text {
		if at += columns(r); at > columnsLeft-1 {
			return text[:i] + strings.Repeat("…", min(max(columnsLeft, 0), 1))
		}
	}
	return text
}

// Wrap breaks escaped text into lines of at most a width, which is at least 2.
func Wrap(text string, most int) (lines []string) {
	most = max(most, 2)
	at, from := 0, 0
	for i, r := range text {
		if n := columns(r); at+n > most {
			lines = append(lines, text[from:i])
			from, at = i, n
		} else {
			at += n
		}
	}
	return append(lines, text[from:])
}
