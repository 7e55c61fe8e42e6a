package test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// replaced are words that the project used in a sense of its own, and the standard terms that replace them. They match whole words,
// in any case, also within identifiers and file names (camelCase and snake_case are taken apart).
var replaced = map[string]string{
	`tells?|told|telling|untold`:             "report, emit (an event), log, print, show",
	`hears?|heard|hearing|ears|deaf|unheard`: "collect, collector, subscribe, missed",
	`strangers?|outsiders?|whoever`:          "unconfined process, process outside the session, client, peer, the process that",
	`guarded|unguarded`:                      "confined, unconfined",
	`lent|lend|borrow(s|ed)?`:                "daemon-backed",
	`leftovers?`:                             "ended session, orphan, cleanup",
	`giv(e|es|en|ing) back|gave back`:        "release, roll back, tear down, restore",
	`hopeless`:                               "unkillable",
	`(other|further) names`:                  "aliases",
	`anew`:                                   "again",
	`beside`:                                 "alongside, next to, besides",
	`likewise|of late|as such`:               "also, recently, or nothing",
	`dear`:                                   "expensive",
	`let go|lets go|letting go`:              "free, evict, release",
	`room`:                                   "capacity, space",
	`stands? for itself|counts? in full`:     "is independent, applies entirely",
	`turn(s|ed)? (down|away)`:                "denied (by policy), rejected (a bad request), failed (an error)",
	`somebody|anybody`:                       "name the process, client or user",
}

// standard are uses of such a word in its usual sense: the path begins so, and the line contains this (in lower case).
var standard = []struct{ path, text string }{
	{"test/words_test.go", ""},
	{"bpf/lib/vmlinux.h", ""},
	{"internal/policy/netname/public_suffix.txt", ""},
	{"", "other names of the same server"},
	// Names of fields in the API and in events, which stay.
	{"internal/api/", `json:"untold`},
	{"docs/api.md", "untold"},
	{"CHANGELOG.md", "untold"},
	{"internal/event/", "leftover"},
	{"docs/events.md", "leftover"},
}

// camel is where a word within an identifier ends.
var camel = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// TestWords looks at every text of the project: code, comments, messages, docs, scripts, and the names of files.
func TestWords(t *testing.T) {
	var patterns []string
	for p := range replaced {
		patterns = append(patterns, p)
	}
	word := regexp.MustCompile(`(?i)\b(` + strings.Join(patterns, "|") + `)\b`)
	cmd := exec.Command("git", "ls-files", "-co", "--exclude-standard")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Skip("needs git and a repository: ", err)
	}
	for name := range strings.Lines(string(out)) {
		name = strings.TrimSpace(name)
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || strings.ContainsRune(string(text), 0) {
			continue // deleted and not yet committed, or not a text
		}
		for i, line := range strings.Split(name+"\n"+string(text), "\n") {
			plain := strings.ReplaceAll(camel.ReplaceAllString(line, "$1 $2"), "_", " ")
			found := word.FindString(plain)
			if found != "" && !inStandard(name, strings.ToLower(plain)) {
				t.Errorf("%s:%d: %q: write %s", name, i, found, instead(t, found)) // line 0 is the file's name
			}
		}
	}
}

func inStandard(name, line string) bool {
	for _, s := range standard {
		if strings.HasPrefix(name, s.path) && strings.Contains(line, s.text) {
			return true
		}
	}
	return false
}

func instead(t *testing.T, found string) string {
	for p, text := range replaced {
		ok, err := regexp.MatchString(`(?i)^(`+p+`)$`, found)
		childtest.Must(t, err)
		if ok {
			return text
		}
	}
	return ""
}
