package policy_test

import (
	"fmt"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// The worked examples of the grants document that the language follows, one line each.
func TestWorkedExamples(t *testing.T) {
	const r, rw = policy.Read, policy.Read | policy.Write
	abc := policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", rw), policytest.Path("src", r), policytest.Path("src/generated", rw)}}
	env := policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", r), policytest.Path(".env", 0)}}
	config := policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", r), policytest.Path(".config/jp/tools", rw)}}
	type fs struct {
		name   string
		layer  policy.SourceLayer
		target string
		caps   policy.Caps
	}
	for _, x := range []fs{
		{"workspace root", abc, "README.md", rw},
		{"narrower rule replaces in full", abc, "src/lib.rs", r},
		{"narrowest rule wins", abc, "src/generated/schema.rs", rw},
		{"unrelated sibling", abc, "tests/main.rs", rw},
		{"a rule without capabilities denies", env, ".env", 0},
		{"next to it", env, "README.md", r},
		{"by component, not by byte", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("src", r)}}, "src_generated/foo.rs", 0},
		{"by component, matching", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("src", r)}}, "src/lib.rs", r},
		{"write alias", policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Write)}}, "x", policy.Write},
		{"write without delete", policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Write&^policy.Delete)}}, "x", policy.Create | policy.Update},
		{"create only", policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Create)}}, "x", policy.Create},
		{"appended layer: the rest is read", config, "README.md", r},
		{"appended layer: tools are written", config, ".config/jp/tools/a.toml", rw},
		{"appended layer: above the tools", config, ".config/jp/other", r},
		{"replaced layer", policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".config/jp/tools", rw)}}, "README.md", 0},
		{"globs are literal", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("*.rs", r)}}, "a.rs", 0},
		{"globs are literal, matching", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("*.rs", r)}}, "*.rs", r},
		{"a rule through a symlink", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("link", r)}}, "src/lib.rs", r},
		{"a target through a symlink", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("src", r)}}, "link/lib.rs", r},
		{"an absolute target inside", abc, "/w/src/lib.rs", r},
		{"dots inside", abc, "tests/../src/lib.rs", r},
		{"last rule wins a tie", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("src", rw), policytest.Path("src", r)}}, "src/lib.rs", r},
		{"last rule wins a tie, the other way", policy.SourceLayer{FS: []policy.FSRule{policytest.Path("src", r), policytest.Path("src", rw)}}, "src/lib.rs", rw},
	} {
		c := policytest.Compile(t, x.layer)
		for _, cap := range []policy.Caps{policy.Read, policy.Create, policy.Update, policy.Delete, policy.Execute} {
			v, _ := c.CheckFSInput(policytest.Machine(), x.target, cap)
			if v.Allow != (x.caps&cap != 0) {
				t.Errorf("%s: %s %s: %+v, want %s", x.name, cap, x.target, v, x.caps)
			}
		}
	}
}

func TestWorkedExamplesOfEscapes(t *testing.T) {
	c := policytest.Compile(t, policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read)}})
	for _, x := range []struct {
		target string
		reason policy.Reason
	}{
		{"../etc/passwd", policy.WorkspaceEscape},
		{"out/passwd", policy.WorkspaceEscape},
		{"/w/out/passwd", policy.WorkspaceEscape},
		{"/w/../etc/passwd", policy.OutsideWorkspace},
		{"/etc/passwd", policy.OutsideWorkspace},
		{"new/dir/file.txt", policy.Allowed},
		{"dangling", policy.Allowed},
		{"loop", policy.PathUnresolved},
		{"", policy.PathUnresolved},
		{"a\x00b", policy.PathUnresolved},
		{"new/../README.md", policy.PathUnresolved},
	} {
		if v, p := c.CheckFSInput(policytest.Machine(), x.target, policy.Read); v.Reason != x.reason {
			t.Errorf("%q: %+v (%s), want %s", x.target, v, p, x.reason)
		}
	}
	for _, bad := range []string{"..", "../x", "out", "out/passwd", "loop", "dangling", "/secret/x", "src/../../x"} {
		if _, err := policy.Compile(policytest.Source(policy.SourceLayer{FS: []policy.FSRule{policytest.Path(bad, policy.Read)}}), policytest.Machine()); err == nil {
			t.Errorf("rule path %q compiles", bad)
		}
	}
}

func TestWorkedExamplesOfNetAndEnv(t *testing.T) {
	api := []policy.NetRule{policytest.Host("api.github.com", true), {Host: "api.github.com", PathPrefix: "/admin"}}
	for _, x := range []struct {
		rules  []policy.NetRule
		target string
		allow  bool
	}{
		{api, "https://api.github.com/repos", true},
		{api, "https://api.github.com/admin/users", false},
		{api, "https://api.github.com/admin", false},
		{api, "https://api.github.com/administration", true},
		{api, "https://api.github.com.evil.com/", false},
		{api, "https://example.com", false},
		{api, "https://API.GitHub.com./repos", true},
		{api, "https://api.github.com:8443/", false},
		{api, "http://api.github.com/", true},
		{[]policy.NetRule{policytest.Host("münchen.de", true)}, "https://xn--mnchen-3ya.de/", true},
		{[]policy.NetRule{policytest.Host("xn--mnchen-3ya.de", true)}, "https://MÜNCHEN.de/", true},
	} {
		c := policytest.Compile(t, policy.SourceLayer{Net: x.rules, TLSIntercept: true})
		target, err := netname.ParseTarget(x.target)
		childtest.Must(t, err)
		if v := c.CheckNet(&target); v.Allow != x.allow {
			t.Errorf("%s: %+v", x.target, v)
		}
	}
	c := policytest.Compile(t, policy.SourceLayer{Env: []policy.EnvRule{
		{Name: "GITHUB_TOKEN", Read: true},
		{Name: "AWS_*", Read: true},
		{Name: "AWS_SECRET_ACCESS_KEY"},
		{Name: "AWS_PROFILE"},
		{Name: "AWS_PROFILE*", Read: true},
		{Name: "AWS_SEC*"},
		{Name: "AWS_SECRET_*", Read: true},
	}})
	// Beyond the reference: a variable that looks like a credential is granted by a rule with its exact name only (TestEnvNeedsExactRule).
	for name, allow := range map[string]bool{
		"GITHUB_TOKEN": true, "GITHUB_TOKEN_LOG": false, "AWS_REGION": true,
		"AWS_SECRET_ACCESS_KEY": false, "HOME": false, "AWS_PROFILE": false, "AWS_PROFILE_LOG": true, "AWS_SECRET_KEY": false, "AWS_SECRET_NAME_": false, "AWS_SECX": false,
	} {
		if v := c.CheckEnv(name); v.Allow != allow {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestDeclaration(t *testing.T) {
	deny := [policy.NumResources]policy.DefaultAction{policy.Deny, policy.Deny, policy.Deny, policy.Deny}
	allow := [policy.NumResources]policy.DefaultAction{policy.Allow, policy.Allow, policy.Allow, policy.Allow}
	for i, x := range []struct {
		layer  policy.SourceLayer
		reason policy.Reason
	}{
		{policy.SourceLayer{}, policy.AllowedNoPolicy},
		{policy.SourceLayer{Defaults: deny}, policy.NoRule},
		{policy.SourceLayer{Defaults: allow}, policy.AllowedByDefault},
		{policy.SourceLayer{Net: []policy.NetRule{policytest.Host("a.example", true)}}, policy.AllowedNoPolicy},
		{policy.SourceLayer{Defaults: allow, FS: []policy.FSRule{policytest.Path("src", 0)}}, policy.RuleDenies},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("tests", policy.Read)}}, policy.NoRule},
		{policy.SourceLayer{FS: []policy.FSRule{policytest.Path("src", policy.Read)}}, policy.Allowed},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			if v := policytest.Compile(t, x.layer).CheckFS("/w/src/lib.rs", policy.Read); v.Reason != x.reason {
				t.Errorf("%+v, want %s", v, x.reason)
			}
		})
	}
}
