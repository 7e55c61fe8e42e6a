package output

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/calls/ask"
	"github.com/toolguard/toolguard/internal/tool/message"
)

// TestApprovals: nothing of an approval controls a terminal, on any screen, and the screens say what to do.
func TestApprovals(t *testing.T) {
	const evil = "e\x1b[2Jx\u202e\u200b\n\u009bvil\xff"
	now := time.UnixMilli(1_000_000)
	always := message.AllowAlways
	a := message.Approval{
		ID: evil, Session: evil, Agent: evil, Tool: evil, Argv: []string{"git", evil}, Cwd: evil, Risk: evil, Reason: evil, Rule: "a\n" + evil,
		Exe: &message.File{Path: evil, SHA256: "0123456789abcdef"}, Files: []message.File{{Path: evil}}, Created: 1, Expires: 1_090_000,
		Offers: []string{always}, Decision: nil,
	}
	decided := a
	decided.Decision, decided.ResolvedBy = &always, &message.By{UID: 7, PID: 8, Exe: evil, Via: evil}
	grant := a
	grant.Tool = ""
	for name, c := range map[string]struct {
		show func(s *Screen) error
		want string
	}{
		"list":       {func(s *Screen) error { s.Approvals([]message.Approval{a, grant}, now); return nil }, "1m30s left"},
		"empty":      {func(s *Screen) error { s.Approvals(nil, now); return nil }, "no approval is pending"},
		"show":       {func(s *Screen) error { s.Approval(&a, now); return nil }, "(sha256 0123456789ab)"},
		"asked":      {func(s *Screen) error { return s.ApprovalAsked(&a, now, false) }, "program"},
		"asked json": {func(s *Screen) error { return s.ApprovalAsked(&a, now, true) }, `"event":"asked"`},
		"ended":      {func(s *Screen) error { return s.ApprovalEnded(&decided, false, now, false) }, "allow-always, by user 7 (process 8, "},
		"ended json": {func(s *Screen) error { return s.ApprovalEnded(&decided, true, now, true) }, `"event":"ended"`},
		"decided":    {func(s *Screen) error { s.Decided(&a, message.Decided{Decision: &always, Effect: evil}); return nil }, "stored:"},
		"open":       {func(s *Screen) error { s.Requested(&ask.Requested{Approval: a, Open: true}); return nil }, "still open"},
		"expired":    {func(s *Screen) error { s.Requested(&ask.Requested{Approval: a}); return nil }, "nobody answered in time"},
		"given":      {func(s *Screen) error { s.Requested(&ask.Requested{Approval: decided, Effect: evil}); return nil }, "given: allow-always"},
		"unserved":   {func(s *Screen) error { s.NotRequested(evil, ""); return nil }, "would allow it"},
		"advice":     {func(s *Screen) error { s.NotRequested("", evil); return nil }, "serves no requests"},
	} {
		var b strings.Builder
		if err := c.show(New(&b, false, false)); err != nil {
			t.Error(name, err)
		}
		text := b.String()
		if !strings.Contains(text, c.want) {
			t.Errorf("%s: no %q in %q", name, c.want, text)
		}
		for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			if Clean(line) != line {
				t.Errorf("%s: %q", name, line)
			}
		}
		if strings.Contains(name, "json") && !json.Valid([]byte(text)) {
			t.Errorf("%s: %q", name, text)
		}
	}
}

func TestASCIIJSON(t *testing.T) {
	var b strings.Builder
	in := "é\u202e😀\x00\u007f<\u009b"
	if err := New(&b, false, false).ASCIIJSON(in); err != nil {
		t.Fatal(err)
	}
	var out string
	if err := json.Unmarshal([]byte(b.String()), &out); err != nil || out != in {
		t.Errorf("%q, %v", out, err)
	}
	if strings.ContainsFunc(strings.TrimSuffix(b.String(), "\n"), func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		t.Errorf("%q", b.String())
	}
}

func TestShortest(t *testing.T) {
	list := []message.Approval{{ID: "0123456789abcdef"}, {ID: "0123456789ffffff"}, {ID: "a b"}, {ID: "fedcba9876543210"}, {ID: "0123"}}
	for i, want := range []string{"0123456789a", "0123456789f", "'a b'", "fedcba98", "0123"} {
		if got := shortest(list, list[i].ID); got != want {
			t.Errorf("%s: %s, want %s", list[i].ID, got, want)
		}
	}
}
