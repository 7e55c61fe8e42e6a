package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// TestToolCommands runs the commands of docs/tools.md that show their output, as an ordinary user, and compares it with the page.
func TestToolCommands(t *testing.T) {
	users := childtest.Users()
	uid := users[len(users)-1]
	if uid == 0 {
		t.Skip("needs an ordinary user")
	}
	bin := toolguard(t)
	must(t, os.Chmod(filepath.Dir(bin), 0o755))
	home := homeOf(t, uid)
	write(t, uid, filepath.Join(home, "project/src/main.go"), "package main\n\n// TODO: read the flags\nfunc main() {}\n")
	for _, b := range blocks(t, "docs/events.md") {
		if b.lang == "jsonl" && strings.Contains(b.text, `"message":"denied net connect`) {
			write(t, uid, filepath.Join(home, "project/events.jsonl"), b.text)
		}
	}
	shown := 0
	for _, b := range blocks(t, "docs/tools.md") {
		name, named := strings.CutPrefix(b.text, "# file: ")
		switch {
		case b.lang == "json":
			write(t, uid, filepath.Join(home, "project/.claude/settings.json"), b.text)
		case b.lang == "toml" && named:
			name, _, _ = strings.Cut(name, "\n")
			write(t, uid, filepath.Join(home, name), b.text)
		case b.lang == "console":
			s := &shownSession{t: t, home: home, uid: uid, path: filepath.Dir(bin)}
			got, commands := s.run(b.text)
			if want := comparable(b.text); comparable(got) != want {
				t.Errorf("line %d: want\n%s\ngot\n%s", b.line, want, comparable(got))
			}
			shown += commands
		}
	}
	if shown < 10 {
		t.Errorf("only %d commands", shown)
	}
}
