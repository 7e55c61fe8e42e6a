package policy_test

import (
	"path"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// A parsed target prints as a text that parses to the same target, and an allow list of another host never allows it.
func FuzzParseNetTarget(f *testing.F) {
	for _, s := range []string{"https://a.com/x?y", "tcp://[::1]:80", "https://a@b/", "https://a.com:8443/%2e%2e/", "udp://1.2.3.4:53", "https://127.1/"} {
		f.Add(s)
	}
	c := policytest.Compile(f, policy.SourceLayer{Net: []policy.NetRule{policytest.Host("allowed.example", true)}})
	f.Fuzz(func(t *testing.T, s string) {
		n, err := netname.ParseTarget(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(n.Host, "@:/%[] \x00\n") || n.Port == 0 || (n.Host == "") != n.Addr.IsValid() {
			t.Errorf("%q: %+v", s, n)
		}
		if v := c.CheckNet(&n); v.Allow && n.Host != "allowed.example" {
			t.Errorf("%q is allowed as %+v", s, n)
		}
		bare := netname.Target{Scheme: n.Scheme, Host: n.Host, Addr: n.Addr, Port: n.Port, Protocol: n.Protocol}
		if again, err := netname.ParseTarget(bare.String()); err != nil || again.String() != bare.String() {
			t.Errorf("%q prints as %s: %s, %v", s, &bare, &again, err)
		}
	})
}

// A pattern that parses is one of the documented forms, and matches as in the naive evaluator.
func FuzzPattern(f *testing.F) {
	for _, s := range []string{"**/.env", "src/**/*.pem", "/**/.git/hooks", "**", "a/**/b*/c", "**/*", "~/**/x"} {
		f.Add(s, "/w/src/x.pem")
	}
	sys := fspathtest.New(map[string]string{"/w": "dir"})
	f.Fuzz(func(t *testing.T, match, target string) {
		if strings.ContainsRune(match, '~') || !fspath.IsCanonical(target) || len(target) > 500 {
			return
		}
		r := policytest.Match(match, policy.AllCaps)
		c, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: []policy.FSRule{r}}), sys)
		if err != nil {
			return
		}
		if base := match[:strings.Index(match, "**/")]; path.Clean("/"+base) != strings.TrimSuffix("/"+strings.TrimPrefix(base, "/"), "/") && base != "" && base != "/" {
			return // the naive evaluator knows clean paths only
		}
		if got, want := c.CheckFS(target, policy.Read).Allow, policytest.NaiveAllows([]policytest.NaiveLayer{{Rules: []policy.FSRule{r}}}, target, policy.Read); got != want {
			t.Errorf("%q on %q: %v, naive %v", match, target, got, want)
		}
	})
}

// Any input resolves to a path that the matcher can follow, or not at all; and nothing outside the
// workspace is ever allowed by a rule for the workspace.
func FuzzTarget(f *testing.F) {
	for _, s := range []string{"src/lib.rs", "../x", "/w/out/passwd", "link/../..", "/proc/self/root/etc", "loop/x", "deep/schema.rs", "a//b/./c", "/dev/fd/3"} {
		f.Add(s)
	}
	c, sys := policytest.Compile(f, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.AllCaps)}}), policytest.Machine()
	f.Fuzz(func(t *testing.T, s string) {
		for _, want := range []policy.Caps{policy.Read, policy.Delete} {
			v, p := c.CheckFSInput(sys, s, want)
			if v.Allow && (!fspath.Within(p, policytest.Workspace) || path.Clean(p) != p) {
				t.Errorf("%q is allowed as %q", s, p)
			}
			if got, err := c.ResolveTarget(sys, s, true); err == nil && !fspath.IsCanonical(got) {
				t.Errorf("%q resolves to %q", s, got)
			}
		}
	})
}
