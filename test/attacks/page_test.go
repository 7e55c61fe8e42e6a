//go:build linux

package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	page    = "../../docs/BACKENDS.md"
	heading = "\n| attack | tries | landlock | bwrap | firejail | bpf | Seatbelt |\n|---|---|---|---|---|---|---|\n"

	enforced, statedGap, notFor = "enforced", "a stated gap", "–"
)

// update makes the tests write the table of attacks instead of comparing it.
var update = os.Getenv("UPDATE_BACKENDS") != ""

// TestAttacksPage compares the table of docs/BACKENDS.md with the rows, whose results under landlock and bpf TestConfined and TestConfinedByBPF check.
// TestConfinedWrapped compares the other columns.
func TestAttacksPage(t *testing.T) {
	if _, err := os.Stat(page); err != nil {
		t.Skip("needs ", page)
	}
	before, _, cells, after := readPage(t)
	var table strings.Builder
	for _, a := range rows() {
		if a.isControl() {
			continue
		}
		old := cells[a.title()]
		if old == nil {
			old = []string{"", "", notFor, notFor, "", ""}
		}
		line := []string{tries(t, a.prog), expected(a.gap, a.more == "" || a.anywhere), old[2], old[3], expected(a.bpfGap, a.below == 0), "unproven without a Mac"}
		if !update && !slices.Equal(line, old) {
			t.Errorf("%s: %s has\n%q, and the row is\n%q (UPDATE_BACKENDS=1 writes it)", a.title(), page, old, line)
		}
		fmt.Fprintf(&table, "| `%s` | %s |\n", a.title(), strings.Join(line, " | "))
		delete(cells, a.title())
	}
	for title := range cells {
		if !update {
			t.Errorf("%s has %s, which is no row", page, title)
		}
	}
	if update {
		must(t, os.WriteFile(page, []byte(before+heading+table.String()+after), 0o644))
	}
}

// expected is the state of a row under a backend that has its result in the row.
func expected(gap string, isFor bool) string {
	switch {
	case !isFor:
		return notFor
	case gap != "":
		return statedGap
	}
	return enforced
}

// isControl reports whether the row is one of granted operations.
func (a attack) isControl() bool {
	return !slices.ContainsFunc(a.tries, func(y try) bool { return y.event.none != "granted" })
}

// title names the row in the table.
func (a attack) title() string {
	switch {
	case a.below != 0:
		return fmt.Sprintf("%s, Landlock ABI < %d", a.prog, a.below)
	case a.from != 0:
		return fmt.Sprintf("%s, Landlock ABI ≥ %d", a.prog, a.from)
	}
	return a.prog
}

var (
	inBrackets = regexp.MustCompile(` *\([^)]*\)`)
	firstPart  = regexp.MustCompile(`Tries: (?:to )?(.*?)(?:[.:;] |\.?$)`)
)

// tries is the first part of a program's comment.
func tries(t *testing.T, prog string) string {
	t.Helper()
	files, err := filepath.Glob("src/" + prog + ".*")
	must(t, err)
	text, err := os.ReadFile(files[0])
	must(t, err)
	comment, _, _ := strings.Cut(string(text), "Must get:")
	words := strings.Fields(strings.NewReplacer("//", " ", "#", " ").Replace(comment))
	return strings.TrimSpace(firstPart.FindStringSubmatch(inBrackets.ReplaceAllString(strings.Join(words, " "), ""))[1])
}

// readPage splits the page at its table, and returns the cells by the first one of their line.
func readPage(t *testing.T) (before, table string, cells map[string][]string, after string) {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	before, rest, found := strings.Cut(string(text), heading)
	if !found {
		t.Fatalf("%s hasn't the table's heading", page)
	}
	table, after, _ = strings.Cut(rest, "\n\n")
	table, after = table+"\n", "\n"+after
	cells = make(map[string][]string)
	for line := range strings.Lines(table) {
		parts := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		cells[strings.Trim(parts[0], "`")] = parts[1:]
	}
	return before, table, cells, after
}

// column is one of the table that a run fills: that of a wrapper's backend.
type column struct {
	index  int // in a line's cells
	who    []user
	states map[string][]string // by row, of each user
}

func (c *column) record(a attack, state string) {
	if c.states == nil {
		c.states = make(map[string][]string)
	}
	c.states[a.title()] = append(c.states[a.title()], state)
}

// compare compares what the run saw with the page, or writes it there. A row that didn't run as every user is left out.
func (c *column) compare(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	before, table, cells, after := readPage(t)
	for _, a := range rows() {
		seen, old := c.states[a.title()], cells[a.title()]
		if missing := len(c.who) - len(seen); missing > 1 || missing == 1 && !a.notRoot || old == nil || len(seen) == 0 {
			continue
		}
		state := seen[0]
		if last := seen[len(seen)-1]; last != state {
			state = fmt.Sprintf("root: %s; others: %s", state, last)
		}
		if update {
			was := fmt.Sprintf("| `%s` | %s |\n", a.title(), strings.Join(old, " | "))
			old[c.index] = state
			table = strings.Replace(table, was, fmt.Sprintf("| `%s` | %s |\n", a.title(), strings.Join(old, " | ")), 1)
		} else if old[c.index] != state && !(old[c.index] == statedGap && state == enforced) { // this kernel enforces more
			t.Errorf("%s: %s has %q, this run saw %q (UPDATE_BACKENDS=1 writes it)", a.title(), page, old[c.index], state)
		}
	}
	if update {
		must(t, os.WriteFile(page, []byte(before+heading+table+after), 0o644))
	}
}

// state is the row's within a wrapper, which may close a stated gap of landlock.
func (a attack) state(got map[string]string) string {
	through := a.gap == ownFilter // which is about events
	for _, y := range a.tries {
		mayPass := a.gap != "" || slices.Contains(otherwise[a.prog], y.name)
		through = through || mayPass && got[y.name] == ok && !strings.HasPrefix(y.event.none, "granted")
	}
	if through {
		return statedGap
	}
	return enforced
}
