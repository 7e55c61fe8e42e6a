package test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestToolCommands runs the commands of docs/tools.md that show their output.
func TestToolCommands(t *testing.T) {
	uid := ordinaryUser(t)
	home := homeOf(t, uid)
	write(t, uid, filepath.Join(home, "project/src/main.go"), "package main\n\n// TODO: read the flags\nfunc main() {}\n")
	for _, b := range blocks(t, "docs/events.md") {
		if b.lang == "jsonl" && strings.Contains(b.text, `"message":"denied net connect`) {
			write(t, uid, filepath.Join(home, "project/events.jsonl"), b.text)
		}
	}
	runShown(t, "docs/tools.md", uid, home, 10, func(b block) string {
		name, named := strings.CutPrefix(b.text, "# file: ")
		switch {
		case b.lang == "json":
			return "project/.claude/settings.json"
		case b.lang == "toml" && named:
			name, _, _ = strings.Cut(name, "\n")
			return name
		}
		return ""
	})
}
