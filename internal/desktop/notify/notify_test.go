package notify

import (
	"strings"
	"testing"
)

// TestLatest: of notices that nobody takes the last one stays, and an error stays last.
func TestLatest(t *testing.T) {
	for text, want := range map[string]string{
		`{"summary":"a"}` + "\n" + `{"summary":"b"}`: "b",
		`{"summary":"a"}` + "\nno JSON\n":            "read a notice",
		strings.Repeat("x", maxLine+1):               "read the notices",
		"":                                           "",
	} {
		got := ""
		for n := range latest(strings.NewReader(text)) {
			got = n.Summary
			if n.err != nil {
				got = n.err.Error()
			}
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%.30q: %q, want %q", text, got, want)
		}
	}
}
