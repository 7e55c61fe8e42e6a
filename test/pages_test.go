package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDecisions: each decision record has three parts, fits on a screen, and is in the list of all.
func TestDecisions(t *testing.T) {
	dir := filepath.Join(root, "docs/decisions")
	list, err := os.ReadFile(filepath.Join(dir, "README.md"))
	must(t, err)
	records, err := filepath.Glob(filepath.Join(dir, "[0-9]*.md"))
	must(t, err)
	if len(records) < 50 || strings.Count(string(list), "\n- [") != len(records) {
		t.Errorf("%d records, %d in the list", len(records), strings.Count(string(list), "\n- ["))
	}
	for _, path := range records {
		name := filepath.Base(path)
		text, err := os.ReadFile(path)
		must(t, err)
		if n := strings.Count(string(text), "\n"); n > 25 {
			t.Errorf("%s has %d lines, more than 25", name, n)
		}
		for _, part := range []string{"\n**Context.** ", "\n**Decision.** ", "\n**Consequences.** "} {
			if strings.Count(string(text), part) != 1 {
				t.Errorf("%s hasn't one %q", name, strings.TrimSpace(part))
			}
		}
		if !strings.Contains(string(list), "]("+name+")") {
			t.Errorf("%s isn't in the list", name)
		}
	}
}

// TestLongPages: a page of more than 300 lines begins with a table of contents, which links to every section.
func TestLongPages(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	must(t, err)
	for _, path := range pages {
		text, err := os.ReadFile(path)
		must(t, err)
		if strings.Count(string(text), "\n") <= 300 || filepath.Base(path) == "BENCHMARKS.md" {
			continue
		}
		for line := range strings.Lines(string(text)) {
			title, ok := strings.CutPrefix(strings.TrimSpace(line), "## ")
			if ok && !strings.Contains(string(text), "\n- ["+title+"](#") {
				t.Errorf("%s: its contents don't have %q", filepath.Base(path), title)
			}
		}
	}
}
