package ask

import (
	"fmt"
	"strings"
	"unicode"
)

// scripts are those with letters that look like Latin ones.
var scripts = []struct {
	name  string
	table *unicode.RangeTable
	alike string // its letters that look like a Latin one
}{
	{"Cyrillic", unicode.Cyrillic, "аАВсСԁеЕһіІјЈКМпоОрРԚЅѕТуУхХѵԜԝзЗьЬНӏ"},
	{"Greek", unicode.Greek, "αΑΒεΕΗιΙκΚΜνΝοΟρΡτΤυΥχΧΖϹϲϳγ"},
	{"Armenian", unicode.Armenian, "օՕսՍցհոՏեզԼ"},
	{"Cherokee", unicode.Cherokee, "ᎠᎡᎢᎪᎫᎬᎳᎷᎻᏀᏃᏂᏔᏙᏚᏞᏟᏢᏦᏮᏴ"},
	{"Coptic", unicode.Coptic, "ⲟⲞⲣⲢⲤⲥⲬⲭⲘⲚⲔⲒ"},
	{"Lisu", unicode.Lisu, "ꓐꓑꓓꓖꓗꓙꓚꓜꓝꓟꓠꓡꓢꓣꓤꓥꓦꓧꓨꓪꓫꓬꓮꓰꓲꓳꓴ"},
}

// marks are characters that look like a part of a path's syntax or of an address.
const marks = "∕⁄⧸／╱⟋․．。·ꓸ‐‑‒–—−﹣－∶：꞉ː＼﹨⧵∖"

// alike returns why a text isn't what it looks like: a word with letters of several scripts, a word only of letters that look like Latin
// ones, letters of other styles, characters that look like / or a dot. It returns "" where nothing is to say.
func alike(text string) string {
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return r < 0x80 && !unicode.IsLetter(r) }) {
		if why := alikeWord(word); why != "" {
			return why
		}
	}
	return ""
}

func alikeWord(word string) string {
	latin := strings.ContainsFunc(word, func(r rune) bool { return unicode.Is(unicode.Latin, r) })
	for _, r := range word {
		switch {
		case r < 0x80:
		case strings.ContainsRune(marks, r):
			return fmt.Sprintf("%q (U+%04X) isn't the ASCII character that it looks like", r, r)
		case r >= 0x1D400 && r <= 0x1D7FF, r >= 0xFF01 && r <= 0xFF5E, r >= 0x24B6 && r <= 0x24E9:
			return fmt.Sprintf("%q (U+%04X) isn't the ASCII letter or digit that it looks like", r, r)
		}
		for _, s := range scripts {
			if !unicode.Is(s.table, r) || !latin && !allOf(word, s.alike) {
				continue
			}
			return fmt.Sprintf("%q (U+%04X) is a %s letter, and not the Latin one that it may look like", r, r, s.name)
		}
	}
	return ""
}

// allOf reports whether all letters of a word are in a list.
func allOf(word, list string) bool {
	return !strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) && !strings.ContainsRune(list, r) })
}
