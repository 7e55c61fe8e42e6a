package policy_test

import (
	"fmt"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// big is a policy of n rules, every twentieth a pattern, over a plausible tree.
func big(n int) *policy.Source {
	l := policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read), policytest.Path("/usr", policy.Read|policy.Execute), policytest.Path("/etc/ssl", policy.Read)}, Protect: policy.ProtectAuto}
	lasts := []string{".env", "*.pem", "id_*", "secrets"}
	for i := len(l.FS); i < n; i++ {
		switch {
		case i%20 == 0:
			l.FS = append(l.FS, policytest.Match(fmt.Sprintf("src/pkg%d/**/%s", i%50, lasts[i/20%len(lasts)]), 0))
		case i%3 == 0:
			l.FS = append(l.FS, policytest.Path(fmt.Sprintf("src/pkg%d/internal/mod%d", i%50, i), policy.Read|policy.Write))
		default:
			l.FS = append(l.FS, policytest.Path(fmt.Sprintf("src/pkg%d/file%d.go", i%50, i), policy.Read|policy.Update))
		}
	}
	for _, s := range []string{"**/.git/hooks", "**/.git/config", "**/.gitmodules", "**/.bashrc", "**/.vscode", "**/.idea", "**/.mcp.json", "**/.envrc", "**/.claude"} {
		l.Protected = append(l.Protected, policytest.Match(s, 0))
	}
	return policytest.Source(l)
}

var benchPaths = []string{
	"/w/src/pkg7/file7.go", "/w/src/pkg9/internal/mod9/a/b/c.go", "/usr/lib/python3/dist-packages/six.py", "/w/README.md",
	"/w/src/pkg20/deep/er/still/.env", "/etc/passwd", "/w/node_modules/left-pad/index.js", "/usr/bin/git",
}

func BenchmarkCheckFS(b *testing.B) {
	for _, n := range []int{10, 1000, 10000} {
		c := policytest.CompileSource(b, big(n), fspathtest.New(map[string]string{"/w": "dir"}))
		for _, want := range []policy.Caps{policy.Read, policy.Update} {
			b.Run(fmt.Sprintf("rules=%d/%s", n, want), func(b *testing.B) {
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					c.CheckFS(benchPaths[i%len(benchPaths)], want)
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			})
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	src, sys := big(1000), fspathtest.New(map[string]string{"/w": "dir"})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := policy.Compile(src, sys); err != nil {
			b.Fatal(err)
		}
	}
}

// The hot path doesn't allocate.
func TestCheckFSDoesNotAllocate(t *testing.T) {
	sys := fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w": "dir"}), Table: fspathtest.Mount("/w/src /usr")}
	c, err := policy.Compile(big(1000), sys)
	if err != nil || len(c.Aliases) != 2 {
		t.Fatal(err, c)
	}
	for _, path := range benchPaths {
		if n := testing.AllocsPerRun(100, func() { c.CheckFS(path, policy.Read|policy.Write) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}
