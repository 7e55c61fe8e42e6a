package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/fspath/fspathtest"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policytest"
)

// A rule without capabilities removes the built-in rules beneath it, but none of the file's own; lint lists both.
func TestOverriddenBuiltinRules(t *testing.T) {
	sys := fspathtest.New(map[string]string{"/w/x": "file", "/home/u/.config/git/config": "file", "/home/u/.config/mine": "file", "/home/u/.cache/x": "file", "/proc/cpuinfo": "file", "/usr/bin/x": "file"})
	at := func(line int, r policy.FSRule) policy.FSRule {
		r.Position = policy.Position{"p.toml", line, 1}
		return r
	}
	built := func(file string, rules ...policy.FSRule) []policy.FSRule {
		for i := range rules {
			rules[i].Position.File = file
		}
		return rules
	}
	runtime := built("builtin:runtime", policytest.Path("/usr", policy.Read|policy.Execute), policytest.Path("/proc/cpuinfo", policy.Read), policytest.Path("/proc/self", policy.Read))
	preset := built("preset:git", policytest.Path("~/.config/git/config", policy.Read), policytest.Path("~/.cache", policy.Read))
	for _, x := range []struct {
		what  string
		own   []policy.FSRule
		gives map[string]policy.Caps
		lint  string
	}{
		{"nothing is taken away", nil, map[string]policy.Caps{"/home/u/.config/git/config": policy.Read, "/proc/cpuinfo": policy.Read}, ""},
		{
			"folders",
			[]policy.FSRule{at(1, policytest.Path("~/.config", 0)), at(2, policytest.Path("/proc", 0))},
			map[string]policy.Caps{"/home/u/.config/git/config": 0, "/proc/cpuinfo": 0, "/proc/self/status": 0, "/home/u/.cache/x": policy.Read, "/usr/bin/x": policy.Read | policy.Execute},
			"removed:1 fs.1: built-in rules at and beneath it aren't in force: git.fs.1 (/home/u/.config/git/config); " +
				"removed:2 fs.2: built-in rules at and beneath it aren't in force: runtime.2 (/proc/cpuinfo), runtime.3 (/proc/self)",
		},
		{"the same path", []policy.FSRule{at(1, policytest.Path("~/.config/git/config", 0))}, map[string]policy.Caps{"/home/u/.config/git/config": 0}, "removed:1 fs.1: built-in rules at and beneath it aren't in force: git.fs.1 (/home/u/.config/git/config)"},
		{"only some capabilities", []policy.FSRule{at(1, policytest.Path("~/.config", policy.Execute))}, map[string]policy.Caps{"/home/u/.config/git/config": policy.Read | policy.Execute, "/home/u/.config/mine": policy.Execute}, ""},
		{"a pattern", []policy.FSRule{at(1, policytest.Match("~/**/.config", 0))}, map[string]policy.Caps{"/home/u/.config/git/config": 0}, "removed:1 fs.1: built-in rules at and beneath it aren't in force: git.fs.1 (/home/u/.config/git/config)"},
		{
			"what the file itself grants beneath",
			[]policy.FSRule{at(1, policytest.Path("~/.config", 0)), at(2, policytest.Path("~/.config/git", policy.Read)), at(3, policytest.Match("~/**/mine", policy.Read))},
			map[string]policy.Caps{"/home/u/.config/git/config": policy.Read, "/home/u/.config/mine": policy.Read, "/home/u/.config": 0},
			"removed:1 fs.1: built-in rules at and beneath it aren't in force: git.fs.1 (/home/u/.config/git/config); " +
				"stays-open:1 fs.1: beneath it stays open what other rules grant: fs.2 (/home/u/.config/git, p.toml:2:1), fs.3 (~/**/mine, p.toml:3:1)",
		},
	} {
		c := policytest.CompileOn(t, sys, policy.SourceLayer{Runtime: runtime, FS: append(preset[:2:2], x.own...), Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny, policy.Env: policy.Deny, policy.Commands: policy.Allow}})
		for path, want := range x.gives {
			if got := c.Caps(path); got != want {
				t.Errorf("%s: %s gets %s, want %s", x.what, path, got, want)
			}
		}
		var warnings []string
		for _, w := range explain.Lint(c, sys, netname.IsPublicSuffix) {
			if w.Code == "removed" || w.Code == "stays-open" {
				warnings = append(warnings, fmt.Sprintf("%s:%d %s", w.Code, w.Position.Line, w.Msg))
			}
		}
		if got := strings.Join(warnings, "; "); got != x.lint {
			t.Errorf("%s: lint prints\n%s\nwant\n%s", x.what, got, x.lint)
		}
	}
}
