package darwin_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/written"
)

var update = flag.Bool("update", false, "write the profiles in testdata")

const egressPort = 3128

// compile compiles a policy of testdata, as if it were /Users/me/p/policy.toml.
func compile(t *testing.T, text string) *policy.Compiled {
	t.Helper()
	c, err := written.Compile(written.Request{
		Policies: []string{"policy.toml"}, Workspace: "/Users/me/ws", Home: "/Users/me", Dir: "/Users/me/p",
	}, func(string, int) ([]byte, error) { return []byte(text), nil })
	childtest.Must(t, err)
	return c
}

func render(t *testing.T, c *policy.Compiled) *darwin.Profile {
	t.Helper()
	p, err := darwin.Render(c, darwin.Options{Home: "/Users/me", EgressPort: egressPort})
	childtest.Must(t, err)
	return p
}

// golden is a profile with what goes with it, as the files of testdata have it. The system part is the same in all but one.
func golden(p *darwin.Profile, whole bool) string {
	var b strings.Builder
	_, rest, _ := strings.Cut(p.Text, "(deny file-ioctl (ioctl-command TIOCSTI))\n")
	if whole {
		rest = p.Text
	}
	b.WriteString(rest)
	b.WriteString("\n; parameters\n")
	for _, x := range p.Params {
		if len(x.Value) > 600 {
			x.Value = fmt.Sprintf("%s… (%d bytes, SHA-256 %.8x)", x.Value[:200], len(x.Value), sha256.Sum256([]byte(x.Value)))
		}
		fmt.Fprintf(&b, "; %s=%s\n", x.Name, x.Value)
	}
	b.WriteString("\n; report\n")
	for _, r := range p.Report {
		if r.Rule != nil && r.Rule.Builtin() && r.Status == policy.Enforced {
			continue
		}
		fmt.Fprintf(&b, "; %s: %s by %s %s\n", r.ID, r.Status, r.By, r.Why)
	}
	return b.String()
}

// The profiles of the policies in testdata are those next to them.
func TestGolden(t *testing.T) {
	policies, err := filepath.Glob("testdata/*.toml")
	childtest.Must(t, err)
	if len(policies) < 20 {
		t.Errorf("only %d policies", len(policies))
	}
	for _, file := range policies {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".toml"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			childtest.Must(t, err)
			got := golden(render(t, compile(t, string(text))), strings.Contains(file, "nothing"))
			want := strings.TrimSuffix(file, ".toml") + ".sb"
			if *update {
				childtest.Must(t, os.WriteFile(want, []byte(got), 0o644))
				return
			}
			if text, err := os.ReadFile(want); err != nil || string(text) != got {
				t.Errorf("%s is out of date: go test -update, and look at the difference (%v)", want, err)
			}
		})
	}
}
