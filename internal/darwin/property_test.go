package darwin_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/darwin"
	"github.com/toolguard/toolguard/internal/policy"
)

// generator makes policies and paths of few names, so that they meet.
type generator struct{ *rand.Rand }

func (g generator) of(list ...string) string { return list[g.IntN(len(list))] }

// path returns a path of at most n names beneath a folder.
func (g generator) path(n int, folders ...string) string {
	p := g.of(folders...)
	for range g.IntN(n + 1) {
		p += "/" + g.of("a", "b", ".env", ".git", "hooks", "config", "x.pub", "id_rsa", ".ssh", "c.key")
	}
	return p
}

var folders = []string{"/Users/me/ws", "/tmp/d", "/Users/me", "/opt"}

func (g generator) rules(n int) (text string) {
	for range g.IntN(n + 1) {
		rule := "[[access.fs]]\npath = '" + g.path(3, folders...) + "'\n"
		if g.IntN(3) == 0 {
			rule = "[[access.fs]]\nmatch = '" + g.path(1, folders...) + "/**/" + g.of(".env", "*.pub", "id*", "a", ".git/hooks", "a/b", "b/a/b") + "'\n"
		}
		for _, c := range []string{"read", "create", "update", "delete", "execute"} {
			rule += fmt.Sprintf("%s = %v\n", c, g.IntN(2) == 0)
		}
		text += rule + fmt.Sprintf("unprotect = %v\nsecret = %v\n", g.IntN(5) == 0, g.IntN(5) == 0)
	}
	return text
}

func (g generator) policy() string {
	text := fmt.Sprintf("version = 1\n[access]\nruntime = %v\nprotect = %v\nsecrets = %v\n", g.IntN(6) == 0, g.IntN(2) == 0, g.IntN(2) == 0)
	if g.IntN(4) == 0 {
		text = strings.Replace(text, "[access]", "[access]\ndefault = 'allow'", 1)
	}
	text += workspace + g.rules(5)
	if g.IntN(3) == 0 {
		text += global(path("/", "read", "write") + g.rules(4))
	}
	return text
}

// each calls f with random policies that a profile enforces.
func each(t *testing.T, n int, f func(g generator, text string, c *policy.Compiled, d *decider, p *darwin.Profile)) {
	t.Helper()
	if testing.Short() {
		n /= 4
	}
	for seed := range n {
		g := generator{rand.New(rand.NewPCG(uint64(seed), 1))}
		text := g.policy()
		c := compile(t, text)
		p := render(t, c)
		if !slices.ContainsFunc(p.Report, func(r policy.Enforceability) bool { return r.Status != policy.Enforced }) {
			f(g, text, c, newDecider(t, p), p)
		}
	}
}

// A profile allows what the policy allows: no more, and as much where no row says that it's stricter.
func TestNoMoreThanThePolicy(t *testing.T) {
	decisions, strict := 0, 0
	each(t, 40, func(g generator, text string, c *policy.Compiled, d *decider, p *darwin.Profile) {
		stricter := slices.ContainsFunc(p.Report, func(r policy.Enforceability) bool { return r.Stricter })
		for range 150 {
			at := g.path(5, "/Users/me/ws", "/private/tmp/d", "/Users/me", "/opt")
			for caps, op := range map[policy.Caps]string{
				policy.Read: "file-read-data", policy.Create: "file-write-create", policy.Update: "file-write-data", policy.Delete: "file-write-unlink", policy.Execute: "process-exec",
			} {
				want, got := c.CheckFS(at, caps).Allow, d.allows(op, at)
				decisions++
				switch {
				case got && !want:
					t.Fatalf("%s %s is allowed\n%s", op, at, text)
				case want && !got && !stricter && caps&(policy.Create|policy.Delete) == 0:
					t.Fatalf("%s %s is denied\n%s", op, at, text)
				case want && !got:
					strict++
				}
			}
		}
	})
	t.Logf("%d decisions, %d stricter", decisions, strict)
	if decisions < 500 || strict > decisions/10 {
		t.Error("too few decisions, or too strict")
	}
}

// By a rename of a folder nothing becomes readable, and no name appears that can't be created.
func TestRenames(t *testing.T) {
	moves := 0
	each(t, 40, func(g generator, text string, c *policy.Compiled, d *decider, _ *darwin.Profile) {
		for range 100 {
			from, to := g.path(2, "/Users/me/ws", "/private/tmp/d"), g.path(2, "/Users/me/ws", "/private/tmp/d")
			if strings.HasPrefix(to+"/", from+"/") || strings.HasPrefix(from+"/", to+"/") || !d.allows("file-write-unlink", from+"/") || !d.allows("file-write-create", to+"/") {
				continue
			}
			moves++
			for range 20 {
				switch beneath := g.path(3, ""); {
				case !c.CheckFS(from+beneath, policy.Read).Allow && d.allows("file-read-data", to+beneath):
					t.Fatalf("%s can be read once %s is %s\n%s", from+beneath, from, to, text)
				case !c.CheckFS(to+beneath, policy.Create).Allow && d.allows("file-write-create", from+beneath):
					t.Fatalf("%s can be made by renaming %s to %s\n%s", to+beneath, from, to, text)
				}
			}
		}
	})
	if t.Logf("%d renames", moves); moves < 50 {
		t.Error("too few renames")
	}
}
