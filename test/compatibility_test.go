package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCompatibility checks that docs/compatibility.md names, for each behaviour of a reference, tests that exist, or says that it isn't built.
func TestCompatibility(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/compatibility.md"))
	must(t, err)
	named := regexp.MustCompile("`((?:test|cmd|internal)/[a-z/]+)\\.((?:Test|Benchmark)[A-Za-z]+)(?:/([a-z0-9_/-]+))?`")
	rows, open := 0, 0
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| reference") {
			continue
		}
		rows++
		cells := strings.Split(strings.ReplaceAll(line, `\|`, ""), "|")
		if len(cells) != 5 {
			t.Errorf("line %d isn't reference, toolguard, test", i+1)
			continue
		}
		if strings.Contains(line, "**Fails open") {
			open++
		}
		tests := named.FindAllStringSubmatch(cells[3], -1)
		if listed := strings.Count(cells[3], "`"); listed != 2*len(tests) || listed == 0 && cells[3] != " not built " {
			t.Errorf("line %d: %q names no tests", i+1, cells[3])
		}
		for _, m := range tests {
			if !declares(t, m[1], m[2]) {
				t.Errorf("line %d: there is no %s in %s", i+1, m[2], m[1])
			}
			if m[3] != "" && !hasRow(t, m[1], m[3]) {
				t.Errorf("line %d: there is no %s/%s in %s", i+1, m[2], m[3], m[1])
			}
		}
	}
	if rows < 130 || open < 30 {
		t.Errorf("only %d rows, %d of which fail open", rows, open)
	}
}

// hasRow reports whether a package has a subtest: a program of the attacks, a story, or calls of the corpus under a policy.
func hasRow(t *testing.T, dir, row string) bool {
	t.Helper()
	switch file, policy, _ := strings.Cut(row, "/"); dir {
	case "test/attacks":
		found, _ := filepath.Glob(filepath.Join(root, dir, "src", row+".*"))
		return found != nil
	case "test/gate":
		text, err := os.ReadFile(filepath.Join(root, dir, "testdata", file+".txt"))
		return err == nil && regexp.MustCompile(`(?m)^== (calls|matrix) `+regexp.QuoteMeta(policy)+`( |$)`).Match(text)
	default:
		_, err := os.Stat(filepath.Join(root, dir, "testdata", row+".txt"))
		return err == nil
	}
}
