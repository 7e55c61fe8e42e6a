package landlock

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
)

// TestCover reads like a report: a policy, and what is said about the rule with an id.
func TestReport(t *testing.T) {
	ws := workspace(t)
	fs := func(rs ...policy.FSRule) policy.SourceLayer { return policy.SourceLayer{FS: rs} }
	net := func(rs ...policy.NetRule) policy.SourceLayer { return policy.SourceLayer{Net: rs, TLSIntercept: true} }
	cmds := func(rs ...policy.CommandRule) policy.SourceLayer { return policy.SourceLayer{Commands: rs} }
	netAllowed := func(rs ...policy.NetRule) policy.SourceLayer {
		return policy.SourceLayer{Net: rs, Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Allow}}
	}
	// everywhere grants port 443 of all addresses, where six changes nothing of it for those of IPv6.
	everywhere := func(six policy.NetRule) []policy.NetRule {
		six.Host, six.Port, six.Allow = "::/0", cmp.Or(six.Port, 443), true
		return []policy.NetRule{{Host: "0.0.0.0/0", Port: 443, Allow: true}, six}
	}
	guarded := func(mode policy.ProtectMode, l policy.SourceLayer) policy.SourceLayer {
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
		{"missing, and can't be given one by one", fs(rule("later", r|policy.Create)), "fs.1", no, "without update"},
		{"a file to write", fs(rule("rw/file", r|w)), "fs.1", less, "create+delete a file: where that's needed, grant it on " + ws + "/rw"},
		{"a file to write and not to read", fs(rule("rw/file", w)), "fs.1", less, "create+delete a file"},
		{"a file to create", fs(rule("rw/file", r|policy.Create)), "fs.1", less, "create a file"},
		{"a file to write where more is", fs(rule("rw", r|policy.Delete), rule("rw/file", r|w)), "fs.2", less, "right to create a file"},
		{"a file to write where files can be made", fs(rule("rw", r|policy.Create|policy.Update), rule("rw/file", r|w)), "fs.2", less, "right to delete a file"},
		{"a file to execute where it may be replaced", fs(rule("rw", r|w), rule("rw/file", rwx)), "fs.2", partly, "link or replace this file"},
		{"a file to execute and not to read", fs(rule("rw/file", w|x)), "fs.1", no, "without read"},
		{"missing in the like", fs(rule(".", r), rule("later", r)), "fs.2", yes, ""},
		{"pattern", fs(rule(".", r), policy.FSRule{Match: "**/.env"}), "fs.2", no, "no patterns"},
		{"pattern elsewhere", fs(rule("rw", r), policy.FSRule{Match: "none/**/.env"}), "fs.2", yes, "nothing else is granted where it could match"},
		{"granting pattern", fs(policy.FSRule{Match: "none/**/x", Caps: r}), "fs.1", less, "can't grant by pattern"},
		{"pattern that grants more", fs(rule(".", r), policy.FSRule{Match: "**/x", Caps: r | w}), "fs.2", less, "can't grant by pattern"},
		{"pattern that grants more where files can be made", fs(rule("rw", r|w), policy.FSRule{Match: "rw/**/x", Caps: rwx}), "fs.2", no, "can't grant by pattern"},
		{"pattern that grants more and less", fs(rule(".", r), policy.FSRule{Match: "**/x", Caps: w}), "fs.2", no, "fs.1 grants read"},
		{"own processes", fs(rule("/proc/self", r)), "fs.1", less, "can't be told"},
		{"default allow", policy.SourceLayer{
			Defaults: [policy.NumResources]policy.DefaultAction{policy.FS: policy.Allow},
			FS:       []policy.FSRule{rule("rw", r)},
		}, "fs.1", no, "can only grant"},
		{"protect, nothing to write", guarded(policy.ProtectOn, fs(rule(".", r))), "protect.1", yes, ""},
		{"protect", guarded(policy.ProtectOn, fs(rule("rw", r|w))), "protect.1", no, "fs.1 gives"},
		{"protect, by a built-in rule, too", guarded(policy.ProtectOn, policy.SourceLayer{
			Runtime: []policy.FSRule{{Path: ws + "/rwx", Caps: rwx, Position: policy.Position{File: "builtin:runtime", Line: 1}}}, FS: []policy.FSRule{rule("rw", w)},
		}), "protect.1", no, ": fs.1 gives"},
		{"protect, by a pattern", guarded(policy.ProtectOn, fs(rule(".", r), policy.FSRule{Match: "rw/**/x", Caps: r | w})), "protect.1", yes, ""},
		{"protect, if it can be", guarded(policy.ProtectAuto, fs(rule("rw", r|w))), "protect.1", no, "fs.1 gives"},
		{"protect, a file", guarded(policy.ProtectOn, fs(rule("rw/file", r|policy.Update))), "protect.1", yes, ""},
		{"unprotect", guarded(policy.ProtectOn, fs(policy.FSRule{Path: "rw", Caps: r | w, Unprotect: true})), "protect.1", yes, ""},

		{"secrets", keeping(policy.ProtectOn, fs(rule(".", r))), "secrets.1", no, "fs.1 gives read on " + ws},
		{"secrets, to execute", keeping(policy.ProtectOn, fs(rule("rw", w), rule("rwx", x))), "secrets.1", no, "fs.2 gives execute"},
		{"secrets, nothing to read", keeping(policy.ProtectOn, fs(rule("rw", w))), "secrets.1", yes, ""},
		{"secrets, if it can be", keeping(policy.ProtectAuto, fs(rule(".", r))), "secrets.1", no, "fs.1 gives read"},
		{"secrets, by a path", keeping(policy.ProtectOn, fs(rule(".", r))), "secrets.2", yes, ""},
		{"secrets, by a path that is granted", keeping(policy.ProtectOn, fs(rule("/etc", r))), "secrets.2", no, "fs.1 gives read on /etc"},
		{"secrets, an exception", keeping(policy.ProtectOn, fs(rule(".", r))), "secrets.3", yes, "an exception"},
		{"secrets, a file", keeping(policy.ProtectOn, fs(rule("rw/file", r))), "secrets.1", yes, ""},
		{"secret", keeping(policy.ProtectOn, fs(policy.FSRule{Path: ".", Caps: r, Secret: true})), "secrets.1", yes, ""},
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
		{"net allowed, less", netAllowed(policy.NetRule{Host: "example.com", Port: 443}), "net.1", no, "what the default allows"},
		{"no net", policy.SourceLayer{Defaults: [policy.NumResources]policy.DefaultAction{policy.Net: policy.Deny}}, "net", yes, "no internet socket at all"},
		{"syscalls", policy.SourceLayer{Syscalls: policy.Syscalls{Profile: "strict"}}, "syscalls", yes, ""},
		{"a syscall more", policy.SourceLayer{Syscalls: policy.Syscalls{Allow: []string{"acct"}}}, "syscalls", yes, ""},
		{"a syscall more and one less", policy.SourceLayer{Syscalls: policy.Syscalls{Allow: []string{"acct"}, Deny: []string{"mount"}}}, "syscalls", yes, ""},
		{"listen", net(policy.NetRule{Host: "127.0.0.1", Port: 8080, Listen: true, Allow: true}), "net.1", partly, "never bound"},
		{"own servers", net(policy.NetRule{Host: "localhost", Listen: true, Allow: true}), "net.1", no, "own servers"},
		{"refusal alone", net(policy.NetRule{Host: "example.com", Port: 443}), "net.1", yes, "no internet socket"},

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
		if advisory := max(c.layer.Protect, c.layer.Secrets) == policy.ProtectAuto && c.status == no; row.Advisory != advisory { // else it's refused
			t.Errorf("%s: advisory is %v", c.what, row.Advisory)
		}
	}
	for _, row := range slices.Concat(Report(compileAt(t, ws, fs(rule("rw", r))), 7), ReportPorts(compileAt(t, ws, fs(rule("rw", r))), 7)) {
		if row.ID == "net" || row.ID == "syscalls" {
			t.Errorf("a row for what nobody says: %+v", row)
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
		for _, report := range []func(*policy.Compiled, int) []policy.Enforceability{Report, ReportPorts} {
			wantRow(t, "TCP", report(compileAt(t, ws, net(policy.NetRule{Host: "example.com", Port: 443, Allow: true})), abi), "net.1", want, " ")
		}
	}
}

// wantRow is the row with an id, which has a status and says something, or nothing.
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

// TestCoverTwo is TestCover for what depends on another authority.
func TestReportTwoLayers(t *testing.T) {
	ws := workspace(t)
	guard := policy.SourceLayer{Authority: policy.Session, Protect: policy.ProtectOn, Protected: []policy.FSRule{{Match: "/**/.envrc"}}}
	writes, reads, lifts := policy.FSRule{Path: "rw", Caps: r | w}, rule("rw", r), policy.FSRule{Path: "rw", Caps: r | w, Unprotect: true}
	for _, c := range []struct {
		what      string
		host, own []policy.FSRule
		status    policy.Status
		why       string
	}{
		{"nobody restricts", nil, nil, policy.NotEnforceable, "nothing restricts fs"},
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

// The policy's own file, where the command may write it, prevents the start, and the report advises what to do.
func TestReportOwnFiles(t *testing.T) {
	ws := workspace(t)
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

// TestRootsAlone holds that file permissions are relied upon only where nobody but root can change anything.
func TestRootsAlone(t *testing.T) {
	ws := workspace(t)
	for p, want := range map[string]bool{"/usr/bin": true, "/usr/no-such/thing": true, ws + "/ro/file": false, "/tmp/x": false} {
		if got := rootsAlone(p); got != want {
			t.Errorf("%s: %v", p, got)
		}
	}
}

// A gap that a newer kernel closes is told on older ones alone.
func TestStatedGaps(t *testing.T) {
	before := regexp.MustCompile(`before Landlock ABI (\d+)$`)
	for abi := 1; abi <= newest; abi++ {
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

// TestHandled holds what each ABI can forbid to the library's table.
func TestHandled(t *testing.T) {
	for i, c := range []landlock.Config{landlock.V1, landlock.V2, landlock.V3, landlock.V4, landlock.V5, landlock.V6, landlock.V7, landlock.V8, landlock.V9, landlock.V10, landlock.V11} {
		if got, want := handled(i+1), uint64(c.HandledAccessFS); got != want {
			t.Errorf("ABI %d: %#x, want %#x", i+1, got, want)
		}
		if got, want := handledNet(i+1), uint64(c.HandledAccessNet); got != want {
			t.Errorf("ABI %d, network: %#x, want %#x", i+1, got, want)
		}
	}
}

// TestPlan reads like TestCover: a policy, an ABI, and what the rulesets are.
func TestPlan(t *testing.T) {
	ws := workspace(t)
	port := func(n policy.NetRule) policy.NetRule {
		n.Host, n.Allow = "127.0.0.1", true
		return n
	}
	denied := policy.NetRule{Host: "10.0.0.1", Port: 22}
	net := policy.SourceLayer{Net: []policy.NetRule{port(policy.NetRule{Port: 443}), port(policy.NetRule{Port: 443, Listen: true}), port(policy.NetRule{Port: 80}), port(policy.NetRule{Port: 53, Protocol: "udp"}), denied}}
	fs := policy.SourceLayer{FS: []policy.FSRule{rule("ro", r), rule("ro/sub", r), rule("/proc/self", r), rule("none", 0)}}
	commands := policy.SourceLayer{Commands: []policy.CommandRule{{Name: ws + "/rwx/script"}, {Name: "none-such"}}}
	write(t, ws+"/rwx/script", []byte("text"), 0o777)
	for _, c := range []struct {
		what    string
		layer   policy.SourceLayer
		abi     int
		newPlan func(*policy.Compiled, int) *Plan
		want    string
	}{
		{"net before TCP", net, 3, whole, "all files, no devices, no control groups"},
		{"net", net, 4, whole, "files /, ports 443:bind+connect 80:connect, no devices, no control groups"},
		{"net before scopes", net, 5, whole, "files /, ports 443:bind+connect 80:connect, no devices, no control groups"},
		{"net with scopes", net, 6, whole, "files /, ports 443:bind+connect 80:connect, scoped socket+signal, no devices, no control groups"},
		{"net before UDP", net, 9, whole, "files /, ports 443:bind+connect 80:connect, scoped socket+signal, no devices, no control groups"},
		{"net with UDP", net, 10, whole, "files /, ports 443:bind+connect 80:connect 53:send 0:bindudp, scoped socket+signal, no devices, no control groups"},
		{"ports with UDP", net, 10, NewPortsPlan, "files /, ports 443:bind+connect 80:connect 53:send 0:bindudp"},
		{"fs with quiet folders", fs, 10, whole, "files " + ws + "/ro, quiet /run/nscd, scoped socket+signal, no devices"},
		{"ports before TCP", net, 3, NewPortsPlan, "none"},
		{"ports", net, 4, NewPortsPlan, "files /, ports 443:bind+connect 80:connect"},
		{"own servers", policy.SourceLayer{Net: []policy.NetRule{{Host: "localhost", Listen: true, Allow: true}}}, 4, NewPortsPlan, "files /, ports 0:bind"},
		{"ports of others", fs, 4, NewPortsPlan, "none"},
		{"fs", fs, 6, whole, "files " + ws + "/ro, scoped socket+signal, no devices"},
		{"commands", commands, 6, whole, "files / " + ws + "/rwx/script, scoped signal, no devices, no control groups"},
		{"nothing", policy.SourceLayer{}, 6, whole, "all files, scoped signal, no devices, no control groups"},
	} {
		if got := describePlan(c.newPlan(compileAt(t, ws, c.layer), c.abi)); got != c.want {
			t.Errorf("%s, ABI %d: %s, want %s", c.what, c.abi, got, c.want)
		}
	}
	for version, want := range map[int]uint32{6: 0, 7: ll.FlagRestrictSelfLogNewExecOn} {
		p := Plan{ABI: version, Rulesets: []Ruleset{{FS: ll.AccessFSExecute}}, Inner: Ruleset{FS: ll.AccessFSExecute}}
		err := p.ApplyTo(func(_ int, flags uint32) error {
			if flags != want {
				t.Errorf("ABI %d: flags %#x", version, flags)
			}
			return nil
		})
		if p.Close(); err != nil && abi(t) > 0 {
			t.Error(err)
		}
	}
	if _, err := NewPlan(compileAt(t, ws, fs), 0); err == nil {
		t.Error("a plan for no Landlock")
	}
}

func whole(c *policy.Compiled, abi int) *Plan {
	p, err := NewPlan(c, abi)
	if err != nil {
		panic(err)
	}
	return p
}

// describePlan is what a plan's only ruleset grants and forbids, in words.
func describePlan(p *Plan) (out string) {
	if p == nil {
		return "none"
	}
	rs, spared := p.Rulesets[0], len(p.Rulesets)-1
	words := "files"
	if last := p.Rulesets[spared]; last.Authority == policy.Builtin && last.FS&ll.AccessFSWriteFile != 0 {
		defer func() { out += ", no control groups" }()
		if spared--; spared < 0 {
			rs.Grants, words = nil, "all files"
		}
	}
	if spared > 0 {
		return fmt.Sprintf("%d rulesets", len(p.Rulesets))
	}
	for _, g := range rs.Grants {
		words += " " + g.Path
	}
	for _, path := range rs.Quiet {
		words += ", quiet " + path
	}
	if rs.Net != 0 {
		words += ", ports"
	}
	for _, port := range rs.Ports {
		words += fmt.Sprintf(" %d:%s", port.Number, map[uint64]string{ll.AccessNetConnectSendUDP: "send", ll.AccessNetBindUDP: "bindudp", ll.AccessNetConnectTCP: "connect", ll.AccessNetBindTCP: "bind", ll.AccessNetBindTCP | ll.AccessNetConnectTCP: "bind+connect"}[port.Access])
	}
	if rs.Scoped != 0 {
		words += ", scoped " + map[uint64]string{ll.ScopeSignal: "signal", ll.ScopeSignal | ll.ScopeAbstractUnixSocket: "socket+signal"}[rs.Scoped]
	}
	if rs.FS&ll.AccessFSMakeChar != 0 {
		words += ", no devices"
	}
	return words
}

// TestRulesets holds that a thread is never under more domains than the kernel takes.
func TestRulesets(t *testing.T) {
	ws := workspace(t)
	both := policy.SourceLayer{FS: []policy.FSRule{rule("ro", r)}, Commands: []policy.CommandRule{{Name: "true"}}}
	var layers []policy.SourceLayer
	for who := policy.Host; who < policy.Session && len(layers) < 7; who++ {
		both.Authority = who
		layers = append(layers, both)
	}
	one, two := policy.SourceLayer{Authority: policy.Session, FS: both.FS}, both
	two.Authority = policy.Session
	for want, last := range map[int]policy.SourceLayer{15: one, 0: two} {
		c := compileSource(t, hostfs.Machine{}, &policy.Source{Workspace: ws, Layers: append(slices.Clip(layers), last)})
		if p, err := NewPlan(c, 7); want == 0 && err == nil || want != 0 && (err != nil || len(p.Rulesets) != want) {
			t.Errorf("want %d rulesets: %v", want, err)
		}
	}
}
