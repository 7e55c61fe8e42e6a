package ask

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/tool/message"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"plain text":      "plain text",
		"\x1b[2Jx":        `\x1b[2Jx`,
		"a\nb\tc\x00":     `a\nb\tc\x00`,
		"a\u202eb":        `a\u202eb`,
		"a\u200bb\ufeff":  `a\u200bb\ufeff`,
		"a\xffb":          `a\xffb`,
		"a\u0301":         `a\u0301`,
		"a\u034fb":        `a\u034fb`,
		"\u3164":          `\u3164`,
		"\u2800":          `\u2800`,
		"\U000e0041":      `\U000e0041`,
		"\u00a0":          `\u00a0`,
		"Größe 東京":        "Größe 東京",
		"\u009b31m":       `\u009b31m`,
		"\ufffd":          `\ufffd`,
		"x\u2028y\u2066z": `x\u2028y\u2066z`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestQuote(t *testing.T) {
	for word, want := range map[string]string{
		"":            "''",
		"ls":          "ls",
		"a b":         "'a b'",
		"a ":          "'a '",
		"it's":        `$'it\'s'`,
		`a\nb`:        `$'a\\nb'`,
		"a\nb":        `$'a\nb'`,
		"$HOME":       "'$HOME'",
		"Größe":       "Größe",
		"a\u200bb":    `$'a\u200bb'`,
		"/a/\u202eb":  `$'/a/\u202eb'`,
		"-x=1,b:c@%+": "-x=1,b:c@%+",
	} {
		if got := Quote(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func TestCutAndWrap(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{
		{"abcdef", 6, "abcdef"}, {"abcdef", 5, "abcd…"}, {"東京都", 6, "東京都"}, {"東京都", 5, "東京…"}, {"東京都", 4, "東…"}, {"abc", 0, ""}, {"abc", 1, "…"},
	} {
		if got := Cut(c.text, c.n); got != c.want {
			t.Errorf("cut %q to %d: %q", c.text, c.n, got)
		}
	}
	for n := range 9 {
		lines := Wrap("ab東京cdef", n)
		if strings.Join(lines, "") != "ab東京cdef" {
			t.Errorf("%d: %q", n, lines)
		}
		for _, l := range lines {
			if Width(l) > max(n, 2) {
				t.Errorf("%d: %q", n, lines)
			}
		}
	}
}

// FuzzQuote: two words never look the same, and nothing that controls a terminal is shown.
func FuzzQuote(f *testing.F) {
	for _, s := range []string{"", "a", "a ", "a\x00", `\`, `\\`, "'", "\x1b]0;x\a", "\u202e", "\xff", `\xff`} {
		f.Add(s, s+" ")
		f.Add(s, `$'`+s+`'`)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		qa, qb := Quote(a), Quote(b)
		if a != b && qa == qb {
			t.Errorf("%q and %q: %s", a, b, qa)
		}
		for _, text := range []string{qa, Escape(a)} {
			if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !shown(r) }) {
				t.Errorf("%q: %q", a, text)
			}
		}
	})
}

// TestRows: every field is escaped, and each one that is bound differs in what is shown.
func TestRows(t *testing.T) {
	const evil = "x\x1b[2J\n\u202e\u200b"
	text := func(a message.Approval) string {
		var b strings.Builder
		for _, r := range Rows(&a) {
			if strings.ContainsFunc(r.Name+r.Text, func(r rune) bool { return !shown(r) }) {
				t.Errorf("%+q", r.Name+r.Text)
			}
			b.WriteString(r.Name + "\t" + r.Text + "\n")
		}
		return b.String() + Summary(&a)
	}
	base := message.Approval{
		ID: evil, Tool: evil, Agent: evil, Argv: []string{evil, evil}, Cwd: evil, Risk: evil, Reason: evil, Rule: evil,
		Exe: &message.File{Path: evil, SHA256: evil}, Files: []message.File{{Path: evil, SHA256: evil}}, Offers: []string{message.AllowAlways},
	}
	seen := map[string]int{text(base): -1}
	for i, change := range []func(a *message.Approval){
		func(a *message.Approval) { a.Tool += " " },
		func(a *message.Approval) { a.Tool = "" },
		func(a *message.Approval) { a.Agent += " " },
		func(a *message.Approval) { a.Argv = []string{evil + " " + evil} },
		func(a *message.Approval) { a.Argv = nil; a.Arguments = []byte(`{"a":"` + evil + `"}`) },
		func(a *message.Approval) { a.Cwd += " " },
		func(a *message.Approval) { a.Risk = "high" },
		func(a *message.Approval) { a.Reason = "y" },
		func(a *message.Approval) { a.Rule = "[[approved]]\ntool = \"x\"\n" },
		func(a *message.Approval) { a.Exe = &message.File{Path: evil, SHA256: "0123456789abcdef"} },
		func(a *message.Approval) { a.Files = nil },
	} {
		a := base
		change(&a)
		got := text(a)
		if other, ok := seen[got]; ok {
			t.Errorf("change %d shows like %d: %s", i, other, got)
		}
		seen[got] = i
	}
}
