package landlock

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/landlock-lsm/go-landlock/landlock"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// TestReport checks the row of one rule in the report of a policy.
func TestReport(t *testing.T) {
	ws := makeWorkspace(t)
	fs := func(rs ...policy.FSRule) policy.SourceLayer { return policy.SourceLayer{FS: rs} }
	net := func(rs ...policy.NetRule) policy.SourceLayer { return policy.SourceLayer{Net: rs, TLSIntercept: true} }
	cmds := func(rs ...policy.CommandRule) policy.SourceLayer { return policy.SourceLayer{Commands: rs} }
	netAllowed := func(rs ...policy.NetRule) policy.SourceLayer {
		return policy.SourceLayer{Net: rs, Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Allow}}
	}
	// everywhere grants port 443 on all addresses; six overrides the rule for IPv6.
	everywhere := func(six policy.NetRule) []policy.NetRule {
		six.Host, six.Port, six.Allow = "::/0", cmp.Or(six.Port, 443), true
		return []policy.NetRule{{Host: "0.0.0.0/0", Port: 443, Allow: true}, six}
	}
	protecting := func(mode policy.ProtectMode, l policy.SourceLayer) policy.SourceLayer {
		l.Protect = mode
		l.Protected = []policy.FSRule{{Match: "/**/.git/hooks", Position: policy.Position{File: "builtin:protect", Line: 1}}}
		return l
	}
	keeping := func(mode policy.ProtectMode, l policy.SourceLayer) policy.SourceLayer {
		l.Secrets = mode
		at := policy.Position{File: "builtin:secrets", Line: 1}
		l.SecretFiles = []policy.FSRule{{Match: "/**/.ssh", Position: at}, {Path: "/etc/shadow", Position: at}, {Match: "/**/*.pub", Caps: r, Position: at}}
		return l
	}
	write(t, ws+"/rwx/script", []byte("#!/bin/sh\n"), 0o777)
	no, partly, yes := policy.NotEnforceable, policy.Partly, policy.Enforced
	const less = policy.Enforced + 1 // enforced, and stricter
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
		{"missing", fs(rule("later", r)), "fs.1", less, "nothing is there yet"},
		{"missing where it can be made", fs(rule("rw", r|w), rule("rw/later", rwx)), "fs.2", partly, "nothing is there yet"},
		{"missing, and can't be granted one by one", fs(rule("later", r|policy.Create)), "fs.1", no, "without update"},
		{"a file to write", fs(rule("rw/file", r|w)), "fs.1", less, "create+delete a file: where that's needed, grant it on " + ws + "/rw"},
		{"a file to write and not to read", fs(rule("rw/file", w)), "fs.1", less, "create+delete a file"},
		{"a file to create", fs(rule("rw/file", r|policy.Create)), "fs.1", less, "create a file"},
		{"a file to write where more is", fs(rule("rw", r|policy.Delete), rule("rw/file", r|w)), "fs.2", less, "right to create a file"},
		{"a file to write where files can be made", fs(rule("rw", r|policy.Create|policy.Update), rule("rw/file", r|w)), "fs.2", less, "right to delete a file"},
		{"a file to execute where it may be replaced", fs(rule("rw", r|w), rule("rw/file", rwx)), "fs.2", partly, "link or replace this file"},
		{"a file to execute and not to read", fs(rule("rw/file", w|x)), "fs.1", no, "without read"},
		{"missing, with the same parent rule", fs(rule(".", r), rule("later", r)), "fs.2", yes, ""},
		{"pattern", fs(rule(".", r), policy.FSRule{Match: "**/.env"}), "fs.2", no, "no patterns"},
		{"pattern elsewhere", fs(rule("rw", r), policy.FSRule{Match: "none/**/.env"}), "fs.2", yes, "nothing else is granted where it could match"},
		{"granting pattern", fs(policy.FSRule{Match: "none/**/x", Caps: r}), "fs.1", less, "can't grant by pattern"},
		{"pattern that grants more", fs(rule(".", r), policy.FSRule{Match: "**/x", Caps: r | w}), "fs.2", less, "can't grant by pattern"},
		{"pattern that grants more where files can be made", fs(rule("rw", r|w), policy.FSRule{Match: "rw/**/x", Caps: rwx}), "fs.2", no, "can't grant by pattern"},
		{"pattern that grants more and less", fs(rule(".", r), policy.FSRule{Match: "**/x", Caps: w}), "fs.2", no, "fs.1 grants read"},
		{"own processes", fs(rule("/proc/self", r)), "fs.1", less, "can't distinguish"},
		{"default allow", policy.SourceLayer{
			Defaults: [policy.NumResources]policy.DefaultAction{policy.FS: policy.Allow},
			FS:       []policy.FSRule{rule("rw", r)},
		}, "fs.1", no, "can only grant"},
		{"protect, nothing to write", protecting(policy.ProtectOn, fs(rule(".", r))), "protect.1", yes, ""},
		{"protect", protecting(policy.ProtectOn, fs(rule("rw", r|w))), "protect.1", no, "fs.1 gives"},
		{"protect, by a built-in rule, too", protecting(policy.ProtectOn, policy.SourceLayer{
			Runtime: []policy.FSRule{{Path: ws + "/rwx", Caps: rwx, Position: policy.Position{File: "builtin:runtime", Line: 1}}}, FS: []policy.FSRule{rule("rw", w)},
		}), "protect.1", no, ": fs.1 gives"},
		{"protect, by a pattern", protecting(policy.ProtectOn, fs(rule(".", r), policy.FSRule{Match: "rw/**/x", Caps: r | w})), "protect.1", yes, ""},
		{"protect, if it can be", protecting(policy.ProtectAuto, fs(rule("rw", r|w))), "protect.1", no, "fs.1 gives"},
		{"protect, a file", protecting(policy.ProtectOn, fs(rule("rw/file", r|policy.Update))), "protect.1", yes, ""},
		{"unprotect", protecting(policy.ProtectOn, fs(policy.FSRule{Path: "rw", Caps: r | w, Unprotect: true})), "protect.1", yes, ""},

		{"secrets", keeping(policy.ProtectOn, fs(rule(".", r))), "secrets.1", no, "fs.1 gives read on " + ws},
		{"secrets, to execute", keeping(policy.ProtectOn, fs(rule("rw", w), rule("rwx", x))), "secrets.1", no, "fs.2 gives execute"},
		{"secrets, nothing to read", keeping(policy.ProtectOn, fs(rule("rw", w))), "secrets.1", yes, ""},
		{"secrets, if it can be", keeping(policy.ProtectAuto, fs(rule(".", r))), "secrets.1", no, "fs.1 gives read"},
		{"secrets, by a path", keeping(policy.ProtectOn, fs(rule(".", r))), "secrets.2", yes, ""},
		{"secrets, by a path that is granted", keeping(policy.ProtectOn, fs(rule("/etc", r))), "secrets.2", no, "fs.1 gives read on /etc"},
		{"secrets, an exception", keeping(policy.ProtectOn, fs(rule(".", r))), "secrets.3", yes, "an exception"},
		{"secrets, a file", keeping(policy.ProtectOn, fs(rule("rw/file", r))), "secrets.1", yes, ""},
		{"secret", keeping(policy.ProtectOn, fs(policy.FSRule{Path: ".", Caps: r, Secret: true})), "secrets.1", yes, ""},
		{
			"secret, and a pattern that isn't", keeping(policy.ProtectOn, fs(policy.FSRule{Path: ".", Caps: r, Secret: true}, policy.FSRule{Match: "**/.ssh", Caps: r})),
			"secrets.1", no, ": fs.2 gives read",
		},
		{"secret, and a pattern that is", keeping(policy.ProtectOn, fs(policy.FSRule{Path: ".", Caps: r, Secret: true},
			policy.FSRule{Match: "**/.ssh", Caps: r, Secret: true})), "secrets.1", yes, ""},
		{"secret, and a built-in rule", keeping(policy.ProtectOn, policy.SourceLayer{
			Runtime: []policy.FSRule{{Path: "/etc", Caps: r, Position: policy.Position{File: "builtin:runtime", Line: 1}}}, FS: []policy.FSRule{{Path: ".", Caps: r, Secret: true}},
		}), "secrets.1", no, ": runtime.1 gives read"},

		{"host", net(policy.NetRule{Host: "example.com", Port: 443, Allow: true}), "net.1", partly, "any host on port 443"},
		{"no port", net(policy.NetRule{Host: "example.com", Allow: true}), "net.1", partly, "ports [80 443 22 9418]"},
		{"udp", net(policy.NetRule{Host: "1.1.1.1", Port: 53, Protocol: "udp", Allow: true}), "net.1", no, "UDP"},
		{"half of everywhere", net(policy.NetRule{Host: "0.0.0.0/0", Port: 443, Allow: true}), "net.1", partly, "no hosts"},
		{"the other half", net(everywhere(policy.NetRule{})[1]), "net.1", partly, "no hosts"},
		{"everywhere", net(everywhere(policy.NetRule{})...), "net.1", yes, ""},
		{"everywhere, by the other rule", net(everywhere(policy.NetRule{})...), "net.2", yes, ""},
		{"no IPv6 on that port", net(everywhere(policy.NetRule{Port: 80})...), "net.1", partly, "no hosts"},
		{"no IPv6 but UDP", net(everywhere(policy.NetRule{Protocol: "udp"})...), "net.1", partly, "no hosts"},
		{"no IPv6 but to listen", net(everywhere(policy.NetRule{Listen: true})...), "net.1", partly, "no hosts"},
		{"no IPv6 but a scheme", net(everywhere(policy.NetRule{Scheme: "https"})...), "net.1", partly, "no hosts"},
		{"no IPv6 but a path", net(everywhere(policy.NetRule{PathPrefix: "/v1"})...), "net.1", partly, "no hosts"},
		{"no IPv6 but a method", net(everywhere(policy.NetRule{Methods: []string{"GET"}})...), "net.1", partly, "no hosts"},
		{"everywhere but somewhere", net(append(everywhere(policy.NetRule{}), policy.NetRule{Host: "10.0.0.1", Port: 443})...), "net.1", partly, "no hosts"},
		{"somewhere not", net(append(everywhere(policy.NetRule{}), policy.NetRule{Host: "10.0.0.1", Port: 443})...), "net.3", no, "this exception"},
		{"a scheme", net(everywhere(policy.NetRule{Scheme: "https"})...), "net.2", partly, "no schemes, paths or methods: any host on port 443"},
		{"a path", net(everywhere(policy.NetRule{PathPrefix: "/v1"})...), "net.2", partly, "no schemes, paths or methods"},
		{"a method", net(everywhere(policy.NetRule{Methods: []string{"GET"}})...), "net.2", partly, "no schemes, paths or methods"},
		{"scheme without a port", net(policy.NetRule{Host: "example.com", Scheme: "ssh", Allow: true}), "net.1", partly, "any host on port 22"},
		{"net allowed, more", netAllowed(policy.NetRule{Host: "example.com", Port: 443, Allow: true}), "net.1", yes, "everything else is allowed too"},
		{"net allowed, less", netAllowed(policy.NetRule{Host: "example.com", Port: 443}), "net.1", no, "a default that allows"},
		{"no net", policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny}}, "net", yes, "no internet socket at all"},
		{"syscalls", policy.SourceLayer{Syscalls: policy.Syscalls{Profile: "strict"}}, "syscalls", yes, ""},
		{"a syscall more", policy.SourceLayer{Syscalls: policy.Syscalls{Allow: []string{"acct"}}}, "syscalls", yes, ""},
		{"a syscall more and one less", policy.SourceLayer{Syscalls: policy.Syscalls{Allow: []string{"acct"}, Deny: []string{"mount"}}}, "syscalls", yes, ""},
		{"listen", net(policy.NetRule{Host: "127.0.0.1", Port: 8080, Listen: true, Allow: true}), "net.1", partly, "never bound"},
		{"own servers", net(policy.NetRule{Host: "localhost", Listen: true, Allow: true}), "net.1", no, "own servers"},
		{"only a denial", net(policy.NetRule{Host: "example.com", Port: 443}), "net.1", yes, "no internet socket"},

		{"command", cmds(policy.CommandRule{Name: "true"}), "commands.true", yes, ""},
		{"arguments", cmds(policy.CommandRule{Name: "true", HasArgs: true, Args: [][]string{{"x"}}}), "commands.true", no, "arguments"},
		{"any arguments", cmds(policy.CommandRule{Name: "true", HasArgs: true, Args: [][]string{{"**"}}}), "commands.true", yes, ""},
		{"variables", cmds(policy.CommandRule{Name: "true", HasEnvs: true}), "commands.true", no, "variables"},
		{"unknown", cmds(policy.CommandRule{Name: "no-such-program"}), "commands.no-such-program", yes, "no such program"},
		{"script", cmds(policy.CommandRule{Name: ws + "/rwx/script"}), "commands." + ws + "/rwx/script", partly, "it's a script"},
	} {
		row := wantRow(t, c.what, Report(compileAt(t, ws, c.layer), 7), c.id, min(c.status, yes), c.why)
		if row.Stricter != (c.status == less) {
			t.Errorf("%s: stricter is %v", c.what, row.Stricter)
		}
		if advisory := max(c.layer.Protect, c.layer.Secrets) == policy.ProtectAuto && c.status == no; row.Advisory != advisory { // otherwise nothing starts
			t.Errorf("%s: advisory is %v", c.what, row.Advisory)
		}
	}
	for _, row := range slices.Concat(Report(compileAt(t, ws, fs(rule("rw", r))), 7), ReportPorts(compileAt(t, ws, fs(rule("rw", r))), 7)) {
		if row.ID == "net" || row.ID == "syscalls" {
			t.Errorf("a row without a declaration: %+v", row)
		}
	}
	dns := []policy.NetRule{{Host: "0.0.0.0/0", Port: 53, Protocol: "udp", Allow: true}, {Host: "::/0", Port: 53, Protocol: "udp", Allow: true}}
	for _, c := range []struct {
		what   string
		rules  []policy.NetRule
		abi    int
		status policy.Status
		why    string
	}{
		{"UDP everywhere before it's limited", dns, 9, no, "UDP before ABI 10"},
		{"UDP everywhere", dns, 10, yes, ""},
		{"UDP everywhere, later", dns, 12, yes, ""},
		{"UDP of one family", dns[:1], 10, partly, "any host on UDP port 53"},
		{"UDP and TCP of the other family", []policy.NetRule{dns[0], {Host: "::/0", Port: 53, Allow: true}}, 10, partly, "any host on UDP port 53"},
		{"UDP of a host", []policy.NetRule{{Host: "1.1.1.1", Port: 53, Protocol: "udp", Allow: true}}, 10, partly, "any host on UDP port 53"},
		{"UDP to listen on", []policy.NetRule{{Host: "127.0.0.1", Port: 53, Protocol: "udp", Listen: true, Allow: true}}, 10, no, "answer"},
	} {
		wantRow(t, c.what, Report(compileAt(t, ws, net(c.rules...)), c.abi), "net.1", c.status, c.why)
	}
	for abi, want := range map[int]policy.Status{3: no, 4: partly} {
		for _, cover := range []func(*policy.Compiled, int) []policy.Enforceability{Report, ReportPorts} {
			wantRow(t, "TCP", cover(compileAt(t, ws, net(policy.NetRule{Host: "example.com", Port: 443, Allow: true})), abi), "net.1", want, " ")
		}
	}
}

// wantRow returns the row with an id and checks its status and explanation.
func wantRow(t *testing.T, what string, rows []policy.Enforceability, id string, status policy.Status, why string) (row policy.Enforceability) {
	t.Helper()
	if i := slices.IndexFunc(rows, func(r policy.Enforceability) bool { return r.ID == id }); i >= 0 {
		row = rows[i]
	}
	if row.ID != id || row.Status != status || row.Why != why && (why == "" || !strings.Contains(row.Why, why)) {
		t.Errorf("%s: %s is %q, %s, %q; want %s, %q", what, id, row.ID, row.Status, row.Why, status, why)
	}
	return row
}

// TestReportTwoLayers is TestReport for rules whose enforcement depends on another authority.
func TestReportTwoLayers(t *testing.T) {
	ws := makeWorkspace(t)
	guard := policy.SourceLayer{Authority: policy.Session, Protect: policy.ProtectOn, Protected: []policy.FSRule{{Match: "/**/.envrc"}}}
	writes, reads, lifts := policy.FSRule{Path: "rw", Caps: r | w}, rule("rw", r), policy.FSRule{Path: "rw", Caps: r | w, Unprotect: true}
	for _, c := range []struct {
		what      string
		host, own []policy.FSRule
		status    policy.Status
		why       string
	}{
		{"no layer restricts", nil, nil, policy.NotEnforceable, "nothing restricts fs"},
		{"the host lets it be written", []policy.FSRule{writes}, nil, policy.NotEnforceable, "host.fs.1 gives create+update+delete on " + ws},
		{"the host doesn't", []policy.FSRule{reads}, []policy.FSRule{writes}, policy.Enforced, ""},
		{"the session lifts it", []policy.FSRule{writes}, []policy.FSRule{lifts}, policy.Enforced, ""},
		{"both let it be written", []policy.FSRule{writes}, []policy.FSRule{writes}, policy.NotEnforceable, "fs.1 gives"},
	} {
		host, own := policy.SourceLayer{Authority: policy.Host, FS: c.host, Syscalls: policy.Syscalls{Profile: "strict"}}, guard
		host.Defaults[policy.Net], own.FS = policy.Deny, c.own
		rows := Report(compileSource(t, hostfs.Machine{}, &policy.Source{Workspace: ws, Layers: []policy.SourceLayer{host, own}}), 7)
		wantRow(t, c.what, rows, "protect.1", c.status, c.why)
		wantRow(t, c.what, rows, "host.net", policy.Enforced, "no internet socket at all")
		wantRow(t, c.what, rows, "host.syscalls", policy.Enforced, "")
	}
}

// TestReportOwnFile checks that a policy file which the command could write is not enforceable, with a remedy.
func TestReportOwnFile(t *testing.T) {
	ws := makeWorkspace(t)
	for _, c := range []struct {
		file   string
		layer  policy.SourceLayer
		status policy.Status
		why    string
	}{
		{"/rw/file", policy.SourceLayer{FS: []policy.FSRule{rule("rw", r|w)}}, policy.NotEnforceable, "move it out"},
		{"/ro/file", policy.SourceLayer{FS: []policy.FSRule{rule("rw", r|w)}}, policy.Enforced, ""},
		{"/ro/file", policy.SourceLayer{}, policy.NotEnforceable, "fs = \"allow\" lets the command change every file"},
		{"/ro/file", policy.SourceLayer{FS: []policy.FSRule{rule(".", r), {Match: "ro/**/*.toml", Caps: r | w}}}, policy.Enforced, ""},
		{"/ro/file", policy.SourceLayer{FS: []policy.FSRule{rule(".", r), {Match: "rw/**/*.toml", Caps: r | w}}}, policy.Enforced, ""},
	} {
		c.layer.Authority = policy.Session
		compiled := compileSource(t, hostfs.Machine{}, &policy.Source{Workspace: ws, Files: []string{ws + c.file}, Layers: []policy.SourceLayer{c.layer}})
		var row policy.Enforceability
		for _, r := range Report(compiled, 7) {
			if r.Rule.FS.Path == ws+c.file {
				row = r
				break
			}
		}
		if row.Rule == nil || row.Status != c.status || !strings.Contains(row.Why, c.why) || row.Advisory != (c.layer.FS == nil) {
			t.Errorf("%s: %+v", c.file, row)
		}
	}
}

// TestOnlyRootCanChange checks that file permissions count only if no other user than root can change the path.
func TestOnlyRootCanChange(t *testing.T) {
	ws := makeWorkspace(t)
	for p, want := range map[string]bool{"/usr/bin": true, "/usr/no-such/thing": true, ws + "/ro/file": false, "/tmp/x": false} {
		if got := onlyRootCanChange(p); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
}

// A gap that a newer kernel closes is reported only on older ones.
func TestStatedGaps(t *testing.T) {
	before := regexp.MustCompile(`before Landlock ABI (\d+)$`)
	for abi := 1; abi <= newestABI; abi++ {
		var closed []string
		for _, gap := range StatedGaps(abi) {
			if m := before.FindStringSubmatch(gap); m != nil {
				closed = append(closed, m[1])
			}
		}
		var want []string
		for _, closes := range []int{6, 5, 9, 3, 2} {
			if abi < closes {
				want = append(want, strconv.Itoa(closes))
			}
		}
		if !slices.Equal(closed, want) {
			t.Errorf("ABI %d: the gaps closed in %v, want %v", abi, closed, want)
		}
	}
}

// TestHandledAccess compares the rights of each ABI with the library's table.
func TestHandledAccess(t *testing.T) {
	for i, c := range []landlock.Config{landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11} {
		if got, want := handledFS(i+1), uint64(c.HandledAccessFS); got != want {
			t.Errorf("ABI %d: %#x, want %#x", i+1, got, want)
		}
		if got, want := handledNet(i+1), uint64(c.HandledAccessNet); got != want {
			t.Errorf("ABI %d, network: %#x, want %#x", i+1, got, want)
		}
	}
}
