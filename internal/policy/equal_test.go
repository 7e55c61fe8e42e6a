package policy_test

import (
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// A policy includes another one's layers as long as each of them is unchanged.
func TestIncludes(t *testing.T) {
	outer := func(rules ...policy.FSRule) policy.SourceLayer {
		return policy.SourceLayer{Authority: policy.Host, FS: rules}
	}
	inner := policy.SourceLayer{FS: []policy.FSRule{policytest.Path(".", policy.Read|policy.Write)}}
	host := policytest.Compile(t, outer(policytest.Path("/etc", policy.Read), policytest.Match("/**/.ssh", 0)))
	builtin := func(path string, caps policy.Caps) policy.FSRule {
		r := policytest.Path(path, caps)
		r.Position.File = "preset:any"
		return r
	}
	everywhere := policytest.Compile(t, outer(policytest.Path("/etc", policy.Read), policytest.Match("/**/.ssh", 0), builtin("/srv", policy.AllCaps)), inner)
	everywhere.TmpDir = "/"
	for _, x := range []struct {
		name string
		c    *policy.Compiled
		want bool
	}{
		{"as they are", policytest.Compile(t, outer(policytest.Path("/etc", policy.Read), policytest.Match("/**/.ssh", 0)), inner), true},
		{"as JSON", roundTrip(t, policytest.Compile(t, outer(policytest.Path("/etc", policy.Read), policytest.Match("/**/.ssh", 0)), inner)), true},
		{"one more rule", policytest.Compile(t, outer(policytest.Path("/etc", policy.Read), policytest.Match("/**/.ssh", 0), policytest.Path("/var", policy.Read)), inner), false},
		{"one rule less", policytest.Compile(t, outer(policytest.Path("/etc", policy.Read)), inner), false},
		{"more is granted", policytest.Compile(t, outer(policytest.Path("/etc", policy.Read|policy.Update), policytest.Match("/**/.ssh", 0)), inner), false},
		{"another authority's", policytest.Compile(t, policy.SourceLayer{Authority: policy.Agent, FS: []policy.FSRule{policytest.Path("/etc", policy.Read), policytest.Match("/**/.ssh", 0)}}, inner), false},
		{"left out", policytest.Compile(t, inner), false},
		{"one more, called a preset's, for a TMPDIR", roundTrip(t, withDigest(t, everywhere)), false},
		{"a rule called a preset's, which only grants", policytest.Compile(t, outer(builtin("/etc", policy.Read), policytest.Match("/**/.ssh", 0)), inner), false},
		{"without toolguard's own", without(policytest.Compile(t, outer(policytest.Path("/etc", policy.Read), policytest.Match("/**/.ssh", 0)), inner)), false},
	} {
		if got := x.c.Includes(host); got != x.want {
			t.Errorf("%s: %v", x.name, got)
		}
	}
}

// An intersection records the events that either policy records, and the digest depends on them.
func TestAuditOfEither(t *testing.T) {
	denials, exec := policytest.Compile(t), policytest.Compile(t)
	exec.Audit.Exec = true
	exec = roundTrip(t, withDigest(t, exec))
	if exec.Digest == denials.Digest || !exec.Audit.Exec {
		t.Errorf("digest %s, and %s where execs are recorded: %+v", denials.Digest, exec.Digest, exec.Audit)
	}
	for _, x := range []struct{ inner, outer *policy.Compiled }{{denials, exec}, {exec, denials}, {exec, exec}} {
		both, err := x.inner.Within(x.outer)
		childtest.Must(t, err)
		if !both.Audit.Exec || !both.Includes(exec) {
			t.Errorf("%+v within %+v: %+v", x.inner.Audit, x.outer.Audit, both.Audit)
		}
	}
	if denials.Includes(exec) || !exec.Includes(denials) {
		t.Error("a policy that records less holds one that records more, or the other way round")
	}
	if d := explain.Diff(exec, denials); len(d) != 1 || d[0].Resource != "audit" || d[0].Old != "exec" || d[0].New != "denials" {
		t.Errorf("%+v", d)
	}
}

// withDigest returns a changed policy with its own digest.
func withDigest(t *testing.T, c *policy.Compiled) *policy.Compiled {
	t.Helper()
	w := c.Wire()
	got, err := w.Compiled()
	childtest.Must(t, err)
	return got
}

// without returns a policy without its first layer.
func without(c *policy.Compiled) *policy.Compiled {
	c.Layers = c.Layers[1:]
	return c
}

// A policy includes another one only with all of its aliases.
func TestIncludesAliases(t *testing.T) {
	for name, change := range map[string]func(*policy.Compiled){
		"":                   func(*policy.Compiled) {},
		"no alias":           func(c *policy.Compiled) { c.Aliases = nil },
		"one with a hole":    func(c *policy.Compiled) { c.Aliases[0].Holes = []string{"/x"} },
		"one from elsewhere": func(c *policy.Compiled) { c.Aliases[0].Depth++ },
		"no link":            func(c *policy.Compiled) { c.Links = nil },
		"one of another":     func(c *policy.Compiled) { c.Links[0].File.Inode++ },
		"one of a rule that grants more": func(c *policy.Compiled) {
			c.Links[0].Rule = int32(len(c.Rules))
			c.Rules = append(c.Rules, &policy.Rule{FS: &policy.CompiledFS{Entry: fspath.Entry{Path: "/"}, Caps: policy.AllCaps}})
		},
	} {
		known := func() *policy.Compiled {
			c := policytest.Compile(t, policy.SourceLayer{Authority: policy.Host, FS: []policy.FSRule{policytest.Path("/etc", policy.Read)}})
			c.Aliases = []fspath.Alias{{From: "/a", To: "/etc", Depth: 1}}
			c.Links = []policy.Link{{File: fspath.FileID{Inode: 7}}}
			return c
		}
		c := known()
		change(c)
		if got := c.Includes(known()); got != (name == "") {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An intersection includes the outer policy; each has its own TMPDIR.
func TestWithinIncludes(t *testing.T) {
	with := func(tmp string, rules ...policy.FSRule) *policy.Compiled {
		own := policytest.Path(tmp, policy.Read|policy.Write)
		own.Position.File = "builtin:runtime"
		src := policytest.Source(policy.SourceLayer{FS: append(rules, own)})
		src.TmpDir = tmp
		return policytest.CompileSource(t, src, fspathtest.New(map[string]string{"/w": "dir", tmp: "dir"}))
	}
	outer := with("/tmp/outer", policytest.Path("/etc", policy.Read))
	in, err := with("/tmp/inner", policytest.Path("/", policy.Read)).Within(outer)
	childtest.Must(t, err)
	if !in.Includes(outer) {
		t.Error("the intersection doesn't include the outer policy")
	}
	if in.Includes(with("/tmp/outer", policytest.Path("/var", policy.Read))) {
		t.Error("it includes another policy")
	}
}

// The digest depends on every rule except toolguard's own in the TMPDIR, in a forged policy too.
func TestDigestOfPresets(t *testing.T) {
	with := func(path string) string {
		r := policytest.Path(path, policy.AllCaps)
		r.Position.File = "preset:any"
		src := policytest.Source(policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/etc", policy.Read), r}})
		src.TmpDir = "/tmp/own"
		c := policytest.CompileSource(t, src, fspathtest.New(map[string]string{"/w": "dir", "/tmp/own": "dir", "/tmp/own/x": "dir"}))
		return c.Digest
	}
	if with("/tmp/own/x") == with("/tmp/own") {
		t.Error("a rule beneath the TMPDIR isn't in the digest")
	}
}

// A forged policy removes none of the outer one's aliases.
func TestForgedAliases(t *testing.T) {
	for name, spoil := range map[string]func(*fspath.Alias){
		"itself":         func(*fspath.Alias) {},
		"deeper":         func(a *fspath.Alias) { a.Depth = 1000 },
		"a hole":         func(a *fspath.Alias) { a.Holes = []string{"/f"} },
		"from elsewhere": func(a *fspath.Alias) { a.From = "/nowhere" },
	} {
		t.Run(name, func(t *testing.T) {
			sys := fspathtest.Mounted{Tree: fspathtest.New(map[string]string{"/w": "dir", "/secret": "dir", "/mnt": "dir"}), Table: fspathtest.Mount("/secret /mnt")}
			host := policytest.CompileOn(t, sys, policy.SourceLayer{Authority: policy.Host, FS: []policy.FSRule{policytest.Path("/", policy.AllCaps), policytest.Path("/secret", 0)}})
			mine := policytest.CompileOn(t, sys, policy.SourceLayer{FS: []policy.FSRule{policytest.Path("/", policy.AllCaps), policytest.Path("/secret", policy.Read)}})
			if len(mine.Aliases) == 0 || host.CheckFS("/mnt/f", policy.Read).Allow || !mine.CheckFS("/mnt/f", policy.Read).Allow {
				t.Fatalf("the host's and the session's policy must differ: %+v", mine.Aliases)
			}
			for i := range mine.Aliases {
				spoil(&mine.Aliases[i])
			}
			in, err := roundTrip(t, withDigest(t, mine)).Within(host)
			childtest.Must(t, err)
			if in.CheckFS("/mnt/f", policy.Read).Allow || !in.Includes(host) {
				t.Errorf("%s may be read, by %+v", "/mnt/f", in.Aliases)
			}
		})
	}
}
