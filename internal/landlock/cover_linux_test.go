package landlock

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
)

// TestCover reads like a report: a policy, and what is said about the rule with an id.
func TestCover(t *testing.T) {
	ws := workspace(t)
	fs := func(rs ...policy.FSRule) policy.SourceLayer { return policy.SourceLayer{FS: rs} }
	net := func(rs ...policy.NetRule) policy.SourceLayer { return policy.SourceLayer{Net: rs} }
	cmds := func(rs ...policy.CommandRule) policy.SourceLayer { return policy.SourceLayer{Commands: rs} }
	guarded := func(mode policy.ProtectMode, l policy.SourceLayer) policy.SourceLayer {
		l.Protect = mode
		l.Protected = []policy.FSRule{{Match: "/**/.git/hooks", Place: policy.Place{File: "builtin:protect", Line: 1}}}
		return l
	}
	write(t, ws+"/rwx/script", []byte("#!/bin/sh\n"), 0o777)
	no, partly, yes := policy.NotEnforceable, policy.Partly, policy.Enforced
	for _, c := range []struct {
		what   string
		layer  policy.SourceLayer
		id     string
		status policy.Status
		why    string
	}{
		{"grant", fs(rule("rw", r|w)), "fs.1", yes, ""},
		{"carve-out", fs(rule(".", r|w), rule("none", 0)), "fs.2", no, "fs.1 gives read+create+update+delete on " + ws},
		{"carve-out of nothing", fs(rule("rw", r), rule("none", 0)), "fs.2", yes, ""},
		{"overridden", fs(rule("rw", 0), rule("rw", r)), "fs.1", yes, "fs.2 on the same path decides"},
		{"more in what only reads", fs(rule(".", r), rule("rw", r|w)), "fs.2", yes, ""},
		{"more in what may be moved", fs(rule(".", r|w), rule("rwx", rwx)), "fs.2", partly, "rename this folder"},
		{"missing", fs(rule("later", r)), "fs.1", partly, "nothing is there yet"},
		{"missing in the like", fs(rule(".", r), rule("later", r)), "fs.2", yes, ""},
		{"pattern", fs(rule(".", r), policy.FSRule{Match: "**/.env"}), "fs.2", no, "no patterns"},
		{"pattern elsewhere", fs(rule("rw", r), policy.FSRule{Match: "none/**/.env"}), "fs.2", yes, ""},
		{"granting pattern", fs(policy.FSRule{Match: "none/**/x", Caps: r}), "fs.1", no, "can't grant by pattern"},
		{"own processes", fs(rule("/proc/self", r)), "fs.1", partly, "can't be told"},
		{"default allow", policy.SourceLayer{
			Defaults: [policy.NumResources]policy.Stance{policy.FS: policy.Allow},
			FS:       []policy.FSRule{rule("rw", r)},
		}, "fs.1", no, "can only grant"},
		{"protect, nothing to write", guarded(policy.ProtectOn, fs(rule(".", r))), "protect.1", yes, ""},
		{"protect", guarded(policy.ProtectOn, fs(rule("rw", r|w))), "protect.1", no, "fs.1 gives"},
		{"protect, a file", guarded(policy.ProtectOn, fs(rule("rw/file", r|policy.Update))), "protect.1", yes, ""},
		{"unprotect", guarded(policy.ProtectOn, fs(policy.FSRule{Path: "rw", Caps: r | w, Unprotect: true})), "protect.1", yes, ""},

		{"host", net(policy.NetRule{Host: "example.com", Port: 443, Allow: true}), "net.1", partly, "any host on port 443"},
		{"no port", net(policy.NetRule{Host: "example.com", Allow: true}), "net.1", partly, "ports [80 443 22 9418]"},
		{"udp", net(policy.NetRule{Host: "1.1.1.1", Port: 53, Protocol: "udp", Allow: true}), "net.1", no, "UDP"},
		{"half of everywhere", net(policy.NetRule{Host: "0.0.0.0/0", Port: 443, Allow: true}), "net.1", partly, "no hosts"},
		{"listen", net(policy.NetRule{Host: "127.0.0.1", Port: 8080, Listen: true, Allow: true}), "net.1", partly, "never bound"},
		{"refusal alone", net(policy.NetRule{Host: "example.com", Port: 443}), "net.1", yes, "no internet socket"},

		{"command", cmds(policy.CommandRule{Name: "true"}), "commands.true", yes, ""},
		{"arguments", cmds(policy.CommandRule{Name: "true", HasArgs: true, Args: [][]string{{"x"}}}), "commands.true", no, "arguments"},
		{"any arguments", cmds(policy.CommandRule{Name: "true", HasArgs: true, Args: [][]string{{"**"}}}), "commands.true", yes, ""},
		{"variables", cmds(policy.CommandRule{Name: "true", HasEnvs: true}), "commands.true", no, "variables"},
		{"unknown", cmds(policy.CommandRule{Name: "no-such-program"}), "commands.no-such-program", yes, "no such program"},
		{"script", cmds(policy.CommandRule{Name: ws + "/rwx/script"}), "commands." + ws + "/rwx/script", partly, "it's a script"},
	} {
		row, ok := find(Cover(compileAt(t, ws, c.layer), 7), c.id)
		if !ok || row.Status != c.status || !strings.Contains(row.Why, c.why) {
			t.Errorf("%s: %v %s, %q; want %s, %q", c.what, ok, row.Status, row.Why, c.status, c.why)
		}
	}
}

func find(rows []policy.Coverage, id string) (policy.Coverage, bool) {
	for _, r := range rows {
		if r.ID == id {
			return r, true
		}
	}
	return policy.Coverage{}, false
}

// TestCoverSoft holds that protect = "auto" never refuses and protect = true does.
func TestCoverSoft(t *testing.T) {
	for mode, soft := range map[policy.ProtectMode]bool{policy.ProtectAuto: true, policy.ProtectOn: false} {
		l := policy.SourceLayer{FS: []policy.FSRule{rule(".", r|w)}, Protect: mode}
		l.Protected = []policy.FSRule{{Match: "/**/.envrc"}}
		if row, ok := find(Cover(compileAt(t, workspace(t), l), 7), "protect.1"); !ok || row.Status != policy.NotEnforceable || row.Soft != soft {
			t.Errorf("mode %d: %v %+v", mode, ok, row)
		}
	}
}

// TestCoverOwn holds that the policy's own file where the command may write is a refusal that says what to do.
func TestCoverOwn(t *testing.T) {
	ws := workspace(t)
	for _, c := range []struct {
		file   string
		layer  policy.SourceLayer
		status policy.Status
		why    string
	}{
		{"/rw/file", policy.SourceLayer{FS: []policy.FSRule{rule("rw", r|w)}}, policy.NotEnforceable, "move it out"},
		{"/ro/file", policy.SourceLayer{FS: []policy.FSRule{rule("rw", r|w)}}, policy.Enforced, ""},
		{"/ro/file", policy.SourceLayer{}, policy.NotEnforceable, "nothing restricts fs"},
	} {
		c.layer.Authority = policy.Session
		compiled := compileSource(t, policyfile.Machine{}, &policy.Source{Workspace: ws, Files: []string{ws + c.file}, Layers: []policy.SourceLayer{c.layer}})
		var row policy.Coverage
		for _, r := range Cover(compiled, 7) {
			if r.Rule.FS.Path == ws+c.file {
				row = r
				break
			}
		}
		if row.Rule == nil || row.Status != c.status || !strings.Contains(row.Why, c.why) {
			t.Errorf("%s: %+v", c.file, row)
		}
	}
}

// TestRootsAlone holds that file permissions are relied upon only where nobody but root can change anything.
func TestRootsAlone(t *testing.T) {
	ws := workspace(t)
	for p, want := range map[string]bool{"/usr/bin": true, "/usr/no-such/thing": true, ws + "/ro/file": false, "/tmp/x": false} {
		if got := rootsAlone(p); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
}
