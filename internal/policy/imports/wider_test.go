package imports

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/policyload"
)

// rules is a text of Claude Code's with permissions.
func rules(s string) string { return `{"permissions":{` + s + "}}" }

// agent is a manifest of Agents.KT's with one agent.
func agent(s string) string { return `{"agentsKtManifestVersion":1,"agents":[{"name":"a",` + s + `}]}` }

// tool is one with a glob for reading.
func globs(s string) string {
	return agent(`"tools":[{"name":"t","policy":{"filesystem":{"read":{"mode":"globs","globs":["` + s + `"]}}}}]`)
}

func access(s string) string { return "access_policies: [{model_pattern: '.*', " + s + "}]\n" }

// What a policy can't express is left out where it's allowed, is wider where it's denied, and is listed in both cases. A line of left
// begins with a key.
func TestNothingIsWider(t *testing.T) {
	for _, x := range []struct{ from, text, without, with, left string }{
		// Patterns that allow reading.
		{"claude-code", rules(`"allow":["Read(//etc/foo?)"]`), `path = "/"`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["Read(~/notes/[ab].txt)"]`), `path = "~`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["Read(~/a/b*c/d)"]`), `path = "~`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["Read(~/a/{b,c})"]`), `path = "~`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["Read(!//etc/x)"]`), `path = "/`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["Read(~/a/*/c)"]`), `path = "~`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["Read(~/../x)","Read(//a/../etc/**)"]`), `"/etc"`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["Read(//)"]`), `path = "/"`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["Read(~/**)"]`), "", `path = "~"`, ""},
		{"claude-code", rules(`"allow":["Read(//etc/foo/**)"]`), "", `path = "/etc/foo"`, ""},
		{"claude-code", rules(`"deny":["Read(//etc/foo?)"]`), "", `path = "/"`, "permissions.deny: "},
		{"claude-code", rules(`"deny":["Read(../x/**)"]`), `"/x"`, `path = "/"`, "permissions.deny: "},
		{"claude-code", rules(`"additionalDirectories":["~/../x","~root/x"]`), `path = "x"`, "", "permissions.additionalDirectories: "},

		// Modes, and names of tools.
		{"claude-code", rules(`"defaultMode":"bypassPermissions","disableBypassPermissionsMode":"disable"`), `"full"`, `security = "allowlist"`, "permissions.defaultMode: "},
		{"claude-code", rules(`"defaultMode":"acceptEdits","disableBypassPermissionsMode":"disable"`), "", "", ""},
		{"claude-code", rules(`"deny":["Edit"]`), "", `deny = ["Edit", "MultiEdit", "NotebookEdit", "Write"]`, ""},
		{"claude-code", rules(`"deny":["Read"]`), "", `deny = ["Glob", "Grep", "LS", "NotebookRead", "Read"]`, ""},
		{"claude-code", rules(`"defaultMode":"acceptEdits","ask":["Edit"]`), `ask = "off"`, "", ""},
		{"claude-code", rules(`"allow":["Edit"]`), "", "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["*","mcp__*","mcp__*__x","B*"]`), `ask = "off"`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["bash","webfetch","edit","web_fetch(domain:a.example)"]`), `ask = "off"`, "", "permissions.allow: "},
		{"claude-code", rules(`"allow":["mcp__a__*"]`), "", `[tools."mcp__a__*"]`, ""},

		// Literal characters that a pattern has for others.
		{"llm-proxy", access(`default_policy: deny, allowed_patterns: ['\*']`), `"*"`, "allow = []", "access_policies[0].allowed_patterns: "},
		{"llm-proxy", access(`default_policy: deny, allowed_patterns: ['read\*']`), `"read*"`, "allow = []", "access_policies[0].allowed_patterns: "},
		{"llm-proxy", access(`default_policy: deny, allowed_patterns: ['x[)-+]']`), `*`, "allow = []", "access_policies[0].allowed_patterns: "},
		{"llm-proxy", "sandboxing: {enabled: true, excluded_tools: ['\\*', 'a[*]']}", "exclude", "", "sandboxing.excluded_tools: "},
		{"llm-proxy", access(`default_policy: allow, blocked_patterns: ['rm\*']`), "", `deny = ["*rm*"]`, "access_policies[0].blocked_patterns: "},

		// Python reads these in another way, or not at all.
		{"llm-proxy", access(`default_policy: deny, allowed_patterns: ['\Qread\E']`), `"read"`, "allow = []", "access_policies[0].allowed_patterns: "},
		{"llm-proxy", access(`default_policy: allow, blocked_patterns: ['rm{,3}']`), "", `deny = ["*"]`, "access_policies[0].blocked_patterns: "},
		{"llm-proxy", access(`default_policy: allow, blocked_patterns: ['a b']`), "", "", "access_policies[0].blocked_patterns: "},
		{"llm-proxy", access(`default_policy: deny, allowed_patterns: ['a b']`), "", "", "access_policies[0].allowed_patterns: "},
		{
			"llm-proxy", "access_policies: [{model_pattern: '.*', default_policy: allow, priority: -9223372036854775808}, " +
				"{model_pattern: '.*', default_policy: deny, priority: 1}]\n",
			"", "allow = []", "access_policies[0]: ",
		},

		// Paths that lead elsewhere, and marks for a person's decision.
		{"agents-kt", globs("/safe/../etc/**"), "etc\"", "", "agents[0].tools[0].policy.filesystem.read.globs: "},
		{"agents-kt", globs("/safe/./x/**"), "safe", "", "agents[0].tools[0].policy.filesystem.read.globs: "},
		{"agents-kt", agent(`"tools":[{"name":"t","policy":{"risk":"critical"}}]`), "", `risk = "critical"`, ""},
		{"agents-kt", agent(`"tools":[{"name":"t","risk":"high","policy":{"risk":"low"}}]`), "", `risk = "high"`, ""},
		{"agents-kt", agent(`"humanOversight":{"required":true},"tools":[{"name":"t"}]`), "", `ask = "always"`, ""},
		{"agents-kt", agent(`"policy":{"approvalRequiredTools":["a b"]}`), "", "", "agents[0].policy.approvalRequiredTools: "},

		// The workspace and the plugins of an OpenClaw.
		{"openclaw", "{agents: {defaults: {sandbox: {workspaceAccess: 'none'}}}}", "write = true", "", "agents.defaults.sandbox.workspaceAccess: "},
		{"openclaw", "{agents: {defaults: {sandbox: {workspaceAccess: 'ro'}}}}", "write = true", "read = true", "agents.defaults.sandbox.workspaceAccess: "},
		{"openclaw", "{agents: {defaults: {sandbox: {mode: 'all'}}}}", "write = true", "", "agents.defaults.sandbox.workspaceAccess: "},
		{"openclaw", "{agents: {defaults: {sandbox: {mode: 'all', workspaceAccess: 'rw', docker: {network: 'none'}}}}}", "", "write = true", ""},
		{"openclaw", "{agents: {defaults: {sandbox: {docker: {network: 'bridge'}}}}}", `net = "allow"`, "", "agents.defaults.sandbox.docker.network: "},
		{
			"openclaw", "{agents: {list: [{id: 'a', sandbox: {workspaceAccess: 'ro'}}]}}",
			"", "[[authorities.agent.a.access.fs]]\n# f: agents.list[0].sandbox.workspaceAccess\npath = \".\"\nread = true\nexecute = true\n",
			"agents.list[0].sandbox.workspaceAccess: ",
		},
		{
			"openclaw", "{agents: {defaults: {sandbox: {mode: 'all', workspaceAccess: 'ro'}}, list: [{id: 'a', sandbox: {workspaceAccess: 'rw'}}]}}",
			"write = true", "", "agents.list[0].sandbox.workspaceAccess: ",
		},
		{"openclaw", "{agents: {list: [{id: 'a', sandbox: {mode: 'all'}}]}}", "", `deny = ["browser", "canvas", "nodes", "cron", "gateway"]`, "agents.list[0].sandbox.mode: "},
		{"openclaw", "{tools: {sandbox: {foo: 1, tools: {denyy: []}}, subagents: {bar: 1}}, agents: {defaults: {zzz: 1}}}", "", "", "tools.sandbox.tools.denyy: "},
		{"openclaw", "{tools: {deny: ['group:runtime', 'cron']}}", "", `deny = ["group:runtime", "code_execution", "cron", "automations"]`, ""},
		{"openclaw", "{tools: {deny: ['group:openclaw']}}", `"*"`, `"code_execution"`, ""},
		{"openclaw", "{plugins: {deny: ['p']}}", "", `deny = ["group:plugins"]`, "plugins.deny: "},
		{"openclaw", "{plugins: {enabled: false}}", "", `deny = ["group:plugins"]`, "plugins.enabled: "},
		{"openclaw", "{plugins: {allow: ['p']}}", "", `deny = ["group:plugins"]`, "plugins.allow: "},
		{"openclaw", "{plugins: {entries: {p: {enabled: false}}}}", "", `deny = ["group:plugins"]`, "plugins.entries.p.enabled: "},
		{"openclaw", "{tools: {subagents: {tools: {alsoAllow: ['cron']}}}}", "", "", "tools.subagents.tools.alsoAllow: "},
		{"openclaw", "{tools: {sandbox: {tools: {alsoAllow: ['cron']}}}}", "", "", "tools.sandbox.tools.alsoAllow: "},
	} {
		r, err := Import(x.from, "f", []byte(x.text))
		childtest.Must(t, err)
		all := string(r.Policy)
		if x.without != "" && strings.Contains(strings.ReplaceAll(all, "# ", ""), x.without) || !strings.Contains(all, x.with) {
			t.Errorf("%s %s: with %q or without %q:\n%s", x.from, x.text, x.without, x.with, all)
		}
		if x.left == "" && len(r.Left) > 0 || !slices.ContainsFunc(append(r.Left, ""), func(l string) bool { return strings.HasPrefix(l, x.left) }) {
			t.Errorf("%s %s: %q are listed, not %q", x.from, x.text, r.Left, x.left)
		}
		if err := policyload.Try("imported.toml", r.Policy, r.Tools); err != nil {
			t.Errorf("%s %s: %s\n%s", x.from, x.text, err, all)
		}
	}
	for from, text := range map[string]string{
		"openclaw": "{agents: {list: [{id: '*'}]}}",
		"jp":       "[conversation.tools.x]\nsource = 'local'\naccess.fs = [{ path = 'a/../b', read = true }]\n",
	} {
		if r, err := Import(from, "f", []byte(text)); err == nil {
			t.Errorf("%s %s: no error, but\n%s", from, text, r.Policy)
		}
	}
}

// A host that is denied stays denied, however exactly another rule allows it.
func TestDeniedHostWins(t *testing.T) {
	r, err := Import("claude-code", "f", []byte(rules(`"allow":["WebFetch(domain:a.evil.com)","WebFetch(domain:good.com)"],"deny":["WebFetch(domain:*.evil.com)"]`)))
	childtest.Must(t, err)
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Chdir(dir)
	o := policyload.Options{Files: []string{"p.toml"}, Dir: dir, Workspace: ".", NoDetect: true, Reads: true, Tool: "WebFetch"}
	o.Edited = &policyload.Edited{Name: filepath.Join(dir, "p.toml"), Text: r.Policy}
	c, err := o.Load("")
	childtest.Must(t, err)
	for host, want := range map[string]bool{"a.evil.com": false, "b.evil.com": false, "good.com": true, "other.com": false} {
		at, err := netname.ParseTarget("https://" + host + "/")
		childtest.Must(t, err)
		if v := c.CheckNet(&at); v.Allow != want {
			t.Errorf("%s: %v, not %v", host, v, want)
		}
	}
	if v := c.CheckFS(filepath.Join(dir, "x"), policy.Read); !v.Allow {
		t.Error("the workspace can't be read")
	}
}

// nonsense adds a key to each table of a value, and returns their paths.
func nonsense(v any, path string) (paths []string) {
	switch v := v.(type) {
	case map[string]any:
		o := &object{path: path, m: v}
		for _, key := range o.keys() {
			paths = append(paths, nonsense(v[key], o.at(key))...)
		}
		v["zzz"] = "nonsense"
		paths = append(paths, o.at("zzz"))
	case []any:
		for n, x := range v {
			paths = append(paths, nonsense(x, fmt.Sprintf("%s[%d]", path, n))...)
		}
	}
	return paths
}

// A key that no importer knows is listed in each table of each fixture, unless it's in one that is listed or unrelated as a whole.
func TestUnknownKeysAreListed(t *testing.T) {
	files, err := filepath.Glob("testdata/*")
	childtest.Must(t, err)
	for _, file := range files {
		text := childtest.ReadFile(t, file)
		from := slices.IndexFunc(formats, func(f format) bool { return strings.HasPrefix(filepath.Base(file), f.name) })
		m, err := formats[from].read(text)
		childtest.Must(t, err)
		paths := nonsense(m, "")
		im := &importer{file: "f", byName: map[string]*table{}, noted: map[string]bool{}, byPath: map[string]*object{}}
		formats[from].do(im, im.object(m, ""))
		im.leaveUnread()
		for _, p := range paths {
			parent := strings.TrimSuffix(strings.TrimSuffix(p, "zzz"), ".")
			listed := slices.ContainsFunc(im.left, func(l string) bool {
				key, _, _ := strings.Cut(l, ": ")
				return key == p || key == parent
			})
			if !listed && !slices.Contains(names, parent) && !slices.Contains(unrelated, parent) && !slices.Contains(shared, parent) {
				t.Errorf("%s: %s isn't listed", file, p)
			}
		}
	}
}

var (
	names     = []string{"tools.byProvider", "conversation.tools", "agents", "plugins.entries"} // whose keys are names
	unrelated = []string{"agents[0].provider", "composition", "subject", "schemas", "socket"}   // nothing in them is about what tools may do
	shared    = []string{"agents[1].tools[0].policy", "agents[1].tools[0].policy.network"}      // in a table that is listed
)
