package tomltext

import "testing"

// Strings are printable and on one line, with the shortest escape that TOML has for a character.
func TestQuote(t *testing.T) {
	for s, want := range map[string]string{
		"plain name":   `"plain name"`,
		`a"b\c`:        `"a\"b\\c"`,
		"a\nb\tc":      `"a\nb\tc"`,
		"\x1b[1m\x00":  `"\u001B[1m\u0000"`,
		"\u202e\uffff": `"\u202E\uFFFF"`, // a mark of writing direction, and the last character of four digits
		"\U000e0001":   `"\U000E0001"`,   // a tag character
		"é😀":           `"é😀"`,
	} {
		if got := Quote(s); got != want {
			t.Errorf("%q: got %s, want %s", s, got, want)
		}
	}
}

func TestLists(t *testing.T) {
	if got := Lists([][]string{{"status", "**"}, {}}); got != `[["status", "**"], []]` {
		t.Error(got)
	}
}
