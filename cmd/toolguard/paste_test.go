package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/cmd/toolguard/output"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/explain"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/session"
	"github.com/toolguard/toolguard/internal/session/backend"
	"github.com/toolguard/toolguard/internal/session/denials"
)

// under compiles a policy in a folder that is its workspace.
func under(t *testing.T, dir, text string) *policy.Compiled {
	t.Helper()
	file := filepath.Join(dir, "..", "p.toml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	src, _, err := policyfile.Load(policyfile.Request{
		Policies: []string{file}, Agent: "coder", Workspace: dir, Dir: dir, Home: filepath.Join(dir, "..", "home"), Path: "/usr/bin:/bin",
	}, hostfs.Machine{})
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	c, err := policy.Compile(src, hostfs.Machine{})
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return c
}

// copied returns the lines of a text that a user would copy: from the first that begins a table on.
func copied(text, indent string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, indent); ok && (len(lines) > 0 || strings.HasPrefix(rest, "[")) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "")
}

// TestGrantsCanBePasted: the suggestion for a denial of any kind, copied from any output to the end of the policy, loads and allows the
// denied access.
func TestGrantsCanBePasted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs sh")
	}
	dir := filepath.Join(t.TempDir(), "w")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link": "/nowhere"} {
		if err := os.Symlink(to+"/x", filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	const none = "version = 1\n[access]\ndefault = \"deny\"\n"
	const some = "version = 1\n[access]\ndefault = { env = \"deny\", net = \"deny\" }\n[[access.fs]]\npath = \".\"\nread = true\n" +
		"[access.commands.sh]\nargs = [[\"-c\", \"true\"]]\n"
	const agent = "version = 1\n[authorities.agent.access]\ndefault = { fs = \"deny\", net = \"deny\", env = \"deny\" }\n" +
		"[authorities.agent.coder.access.commands.true]\n[access]\ndefault = \"allow\"\n"
	fs := func(caps policy.Caps, target string) explain.Question {
		return explain.Question{Caps: caps, Target: target}
	}
	net := func(target string) explain.Question { return explain.Question{Resource: policy.Net, Target: target} }
	run := func(argv ...string) explain.Question { return explain.Question{Resource: policy.Commands, Argv: argv} }
	for _, base := range []string{none, some, agent} {
		for _, q := range []explain.Question{
			fs(policy.Read, "/srv/notes"), fs(policy.Update, "notes"), fs(policy.Create, `a"b\c`), fs(policy.Delete, "x y\tz"), fs(policy.Create, "\u202edriew"),
			fs(policy.Execute, "/opt/tool"), fs(policy.Write, "new"), fs(policy.Create, "sub/x.pyc.140316123"), fs(policy.Create, "~odd"),
			fs(policy.Read|policy.Update, "/srv/a'b\x1b[2J"),
			{Caps: policy.Read, Target: "/srv/link", Symlink: true},
			net("tcp://10.1.2.3:25"), net("udp://192.0.2.1:53"), net("https://example.com/"), net("http://example.com/a%20b?c"), net("ssh://host.example"),
			net("tcp://[2001:db8::1]:443"), net("wss://example.com:8443/x"),
			{Resource: policy.Net, Target: "http://example.com/x", Method: "POST"},
			{Resource: policy.Net, Target: "tcp://127.0.0.1:8080", Listen: true},
			{Resource: policy.Env, Target: "EDITOR"},
			{Resource: policy.Env, Target: `A"B`},
			run("sh"), run("sh", "-c", "exit\n3"), run("/bin/sh", "x"), run("env", "A=\"b\"", `c\d`), run("sh", "-c", ""),
		} {
			c := under(t, dir, base)
			v, a := explain.Ask(c, hostfs.Machine{}, q)
			if v.Allow {
				continue
			}
			if a.Suggest == "" {
				t.Errorf("%+v: nothing is suggested for %+v (%s)", base, q, a.Advice)
				continue
			}
			e := event.Event{Kind: event.Denial, Resource: q.Resource.String(), Capability: "x", Target: a.Target, Reason: string(a.Reason), Suggest: a.Suggest}
			e = e.Clean()
			report, r := plainScreen()
			report.Report(session.Result{Summary: denials.Summary{Visible: true, Total: 1, Denials: []denials.Denial{{Event: e, Count: 1}}}}, "p", output.ReportOptions{Lines: output.ReportLines})
			check, k := plainScreen()
			check.Answer(q, a, backend.Here{})
			for where, text := range map[string]string{
				"the report": copied(r.String(), "  "), "check": copied(k.String(), "  "), "events": copied(string(event.Text.Append(nil, &e)), "    "),
			} {
				if text == "" {
					t.Errorf("%s offers nothing for %+v", where, q)
				}
				if again, _ := explain.Ask(under(t, dir, base+text), hostfs.Machine{}, q); !again.Allow {
					t.Errorf("%s: the suggestion for %+v doesn't allow it:\n%s%s", where, q, base, text)
				}
			}
		}
	}
}
