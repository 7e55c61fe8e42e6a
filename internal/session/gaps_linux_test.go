package session

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
)

// docs/BACKENDS.md has the stated gaps of the bpf backend. Those of landlock are held to it where this machine has it (package
// test); these aren't told where it hasn't.
func TestGapsInDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/BACKENDS.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, gap := range slices.Concat(bpfGaps, lentGaps) {
		if !strings.Contains(string(page), "\n- "+gap+"\n") {
			t.Errorf("docs/BACKENDS.md doesn't have this gap:\n- %s", gap)
		}
	}
}

// The programs don't look at variables: that isn't to be said of them.
func TestEnvsOfCommands(t *testing.T) {
	for _, rule := range []policy.CommandRule{{Name: "/usr/bin/true"}, {Name: "/usr/bin/true", HasEnvs: true, Envs: []string{"PATH"}}} {
		want := policy.Enforced
		if rule.HasEnvs {
			want = policy.Partly
		}
		rows := coverPrograms(listing(t, rule), nil)
		if last := rows[len(rows)-1]; last.Status != want {
			t.Errorf("envs %v: %+v, want %s", rule.HasEnvs, last, want)
		}
	}
}
