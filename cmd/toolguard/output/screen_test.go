package output

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// on is a screen, with or without colours, and what is on it.
func on(color bool) (*Screen, *strings.Builder) {
	var b strings.Builder
	return New(&b, false, color), &b
}

func TestClean(t *testing.T) {
	for _, row := range []struct{ in, out string }{
		{"", ""},
		{"/home/u/café ☕", "/home/u/café ☕"},
		{`a\nb`, `a\nb`},
		{"a\nb\tc\rd", `a\nb\tc\rd`},
		{"\x1b[31mred\x1b]0;title\x07", `\x1b[31mred\x1b]0;title\a`},
		{"\u009b31m", `\u009b31m`},
		{"\u202egnp.exe", `\u202egnp.exe`},
		{"a\u200bb\u2028c", `a\u200bb\u2028c`},
		{"\xff\xc3(", `\xff\xc3(`},
		{"\ufffd", "\ufffd"},
	} {
		if got := Clean(row.in); got != row.out {
			t.Errorf("clean(%q) = %q, not %q", row.in, got, row.out)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[2J\xf0\x28\u202e")
	f.Fuzz(func(t *testing.T, in string) {
		out := Clean(in)
		if !utf8.ValidString(out) {
			t.Errorf("%q isn't UTF-8", out)
		}
		if i := strings.IndexFunc(out, func(r rune) bool { return r < 0x20 || r >= 0x7f && r < 0xa0 || r == 0x202e || r == 0x200f }); i >= 0 {
			t.Errorf("%q has a control character at %d", out, i)
		}
		if Clean(out) != out {
			t.Errorf("%q changes when it's cleaned again", out)
		}
	})
}

func resultOfDenials(n int, suggest string) session.Result {
	r := session.Result{Summary: denials.Summary{Visible: true}}
	for i := range n {
		r.Denials = append(r.Denials, denials.Denial{Count: uint64(i + 1), Event: event.Event{
			Capability: "read", Target: fmt.Sprintf("/home/u/.ssh/key%d", i), Reason: string(policy.NoRule), Suggest: suggest,
		}})
		r.Total += uint64(i + 1)
	}
	return r
}

func TestReport(t *testing.T) {
	s, b := on(false)
	r := resultOfDenials(2, "[[access.fs]]\npath = \"/home/u/.ssh\"\nread = true\n")
	r.Denials[1].Rule, r.Denials[1].Place, r.Denials[1].Suggest = "fs.3", "p.toml:12:1", ""
	r.RemovedEnv = []string{"AWS_SECRET_ACCESS_KEY"}
	s.Report(r, "web-scraper", ReportOptions{Rest: " (all of them with --events FILE)", Lines: ReportLines})
	want := `toolguard: 3 denials (policy web-scraper)
  read  /home/u/.ssh/key0  no rule allows it
  read  /home/u/.ssh/key1  fs.3, p.toml:12:1  ×2
  not in its environment: AWS_SECRET_ACCESS_KEY
  to allow it, copy the intended part of this to the end of the policy:
  [[access.fs]]
  path = "/home/u/.ssh"
  read = true
`
	if b.String() != want {
		t.Errorf("the report is\n%s\nnot\n%s", b, want)
	}
}

// Where denials can't be seen, the reason is shown.
func TestReportOfUnseen(t *testing.T) {
	for _, x := range []struct {
		r    session.Result
		want string
	}{
		{session.Result{}, "toolguard: what the kernel denies can't be seen by this user: "},
		{
			session.Result{Summary: denials.Summary{WhyUnseen: "the kernel's audit records can't be read: it's another network namespace"}},
			"toolguard: what the kernel denies can't be seen here (it's another network namespace): ",
		},
	} {
		s, b := on(false)
		if s.Report(x.r, "p", ReportOptions{Lines: ReportLines}); !strings.HasPrefix(b.String(), x.want) {
			t.Errorf("the report is %s", b)
		}
	}
}

func TestReportHasAnEnd(t *testing.T) {
	for n := range 60 {
		for _, suggest := range []string{"", "[[access.fs]]\npath = \"/x\"\nread = true"} {
			s, b := on(false)
			r := resultOfDenials(n+1, suggest)
			r.Lost, r.RemovedEnv = 3, []string{"A"}
			s.Report(r, "p", ReportOptions{Rest: " (all of them with --events FILE)", Numbered: n%2 == 0, Lines: ReportLines})
			text := b.String()
			if lines := strings.Count(text, "\n"); lines > ReportLines {
				t.Fatalf("%d denials take %d lines:\n%s", n+1, lines, text)
			}
			shown := strings.Count(text, "  read  ")
			if left := n + 1 - shown; left > 0 && !strings.Contains(text, fmt.Sprintf("… and %d more (all of them with --events FILE)", left)) {
				t.Fatalf("of %d denials %d are shown, and the rest isn't mentioned:\n%s", n+1, shown, text)
			}
		}
	}
}

func TestColourIsOptional(t *testing.T) {
	r := resultOfDenials(30, "x = 1")
	plain, b := on(false)
	plain.Report(r, "p", ReportOptions{Lines: ReportLines})
	coloured, cb := on(true)
	coloured.Report(r, "p", ReportOptions{Lines: ReportLines})
	if strings.Contains(b.String(), "\x1b") || !strings.Contains(cb.String(), "\x1b[") {
		t.Fatal("colours where there should be none, or none where there should be some")
	}
	text := cb.String()
	for _, st := range []style{bold, faint, red, green, yellow, "0"} {
		text = strings.ReplaceAll(text, "\x1b["+string(st)+"m", "")
	}
	if text != b.String() {
		t.Errorf("without its colours the report is\n%s\nnot\n%s", text, b)
	}
}

// TestHostileNames: a report of files with any name has its lines and no others.
func TestHostileNames(t *testing.T) {
	r := resultOfDenials(1, "[[access.fs]]\npath = \"/\x1b[2J\"\nread = true")
	r.Denials[0].Target = "/a\n  read  /etc/shadow\x1b[1A\xff"
	r.Denials[0].Place = "p\r.toml:1:1"
	r.Denials[0].Rule = "fs.1"
	s, b := on(false)
	s.Report(r, "evil\x1b]0;x\x07", ReportOptions{Rest: " (all of them with --events FILE)", Lines: ReportLines})
	text := b.String()
	if strings.Count(text, "\n") != 6 || strings.ContainsAny(text, "\x1b\x07\r") || !utf8.ValidString(text) {
		t.Errorf("the report lets names through: %q", text)
	}
}

func TestSystemCallsInTheReport(t *testing.T) {
	s, b := on(false)
	s.Report(session.Result{Summary: denials.Summary{Visible: true, Total: 1, Denials: []denials.Denial{{Count: 1, Event: event.Event{
		Resource: "syscall", Capability: "unshare", Target: "unshare", Rule: "seccomp.namespaces", Reason: string(policy.SyscallDenied),
	}}}}}, "p", ReportOptions{Lines: ReportLines})
	if want := "  call  unshare  the session may not make this system call (seccomp.namespaces)\n"; !strings.HasSuffix(b.String(), want) {
		t.Errorf("the report is\n%s\nwithout\n%s", b, want)
	}
}

// TestChangesShareLines: changes that differ only in their target share a line, and none is left out.
func TestChangesShareLines(t *testing.T) {
	rule := &policy.Rule{ID: "fs.1", Position: policy.Position{File: "p.toml", Line: 3, Col: 1}}
	s, b := on(false)
	s.Changes([]explain.Change{
		{Resource: "fs", Widened: true, Target: "/a", Old: "none", New: "read", NewRule: rule},
		{Resource: "fs", Widened: true, Target: "/b", Old: "none", New: "read", NewRule: rule},
		{Resource: "fs", Narrowed: true, Target: "/c", Old: "read", New: "none", OldRule: rule},
		{Resource: "env", Narrowed: true, Target: "A", Old: "allow", New: "deny"},
		{Resource: "env", Narrowed: true, Target: "B", Old: "allow", New: "deny"},
	})
	want := `wider     fs   /a and 1 more  none → read   no rule → fs.1 p.toml:3:1
narrower  fs   /c             read → none   fs.1 p.toml:3:1 → no rule
narrower  env  A              allow → deny
narrower  env  B              allow → deny
`
	if b.String() != want {
		t.Errorf("the changes are\n%s\nnot\n%s", b, want)
	}
}
