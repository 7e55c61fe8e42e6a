//go:build linux

package gate

import (
	"os"
	"strings"
	"testing"
)

// everydayPolicy is the obvious one for a coding agent.
const everydayPolicy = `
version = 1
[access]
fs = [
  { path = ".", read = true, write = true, execute = true },
  { path = "@BIN", read = true, execute = true },
]
net = [{ host = "api.github.com", allow = true }]
`

// everyday returns the calls that agents make every day, as a section under a policy.
func everyday(t testing.TB, policy string) *section {
	t.Helper()
	text, err := os.ReadFile("testdata/everyday.txt")
	must(t, err)
	sec := &section{file: "everyday", policy: policy}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); line == "" || line[0] == '#' {
			continue
		}
		r, err := parseRow("allow | $ " + line)
		must(t, err)
		sec.rows = append(sec.rows, r)
	}
	return sec
}

// TestEveryday: of what agents run every day, the gate asks about few calls and denies none. Of a hundred, it asks about two if it knows
// the shell, and about a few more where one of the shells doesn't have what only another one has.
func TestEveryday(t *testing.T) {
	s := newScene(t)
	for shell, most := range map[string]int{"bash": 2, "auto": 5} {
		t.Run(shell, func(t *testing.T) {
			s.write(t, "everyday-"+shell, everydayPolicy+"[gate]\nshell = \""+shell+"\"\n")
			sec := everyday(t, "everyday-"+shell)
			if len(sec.rows) != 100 {
				t.Errorf("%d commands", len(sec.rows))
			}
			asked := 0
			for i, a := range s.answers(t, sec) {
				switch a.Decision {
				case "ask":
					asked++
					t.Logf("ask: %s\n  %s", sec.rows[i].command, a.Message)
				case "deny":
					t.Errorf("denied: %s\n  %s", sec.rows[i].command, a.Message)
				}
			}
			if asked > most {
				t.Errorf("the gate asks about %d of %d, more than %d", asked, len(sec.rows), most)
			}
		})
	}
}
