package ask

import "testing"

func TestAlike(t *testing.T) {
	for _, c := range []struct {
		text string
		warn bool
	}{
		{"/usr/bin/python3", false},
		{"/home/a/Документы/отчёт.txt", false},
		{"/home/a/报告.txt", false},
		{"naïve café", false},
		{"日本語テキスト", false},
		{"/usr/bin/pythоn3", true}, // a Cyrillic o
		{"/usr/bin/ѕсоре", true},   // only letters that look Latin
		{"paypаl.com", true},
		{"ᎪᏢᏢ", true},
		{"/etc∕passwd", true},
		{"example․com", true},
		{"ｌｓ", true},
		{"𝐫𝐦", true},
		{"git push −−force", true},
		{"ρython", true},
	} {
		if got := alike(c.text); (got != "") != c.warn {
			t.Errorf("%q: %q", c.text, got)
		}
	}
}
