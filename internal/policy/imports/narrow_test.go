package imports

import (
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
)

// What has no exact equivalent isn't granted, and is listed.
func TestNothingIsWider(t *testing.T) {
	for _, x := range []struct{ from, text, without, with, left string }{
		{"claude-code", `{"permissions":{"allow":["Read(//etc/foo?)"]}}`, `path = "/"`, `path = "."`, "left out"},
		{"claude-code", `{"permissions":{"allow":["Read(~/notes/[ab].txt)"]}}`, `path = "~"`, `path = "."`, "left out"},
		{"claude-code", `{"permissions":{"allow":["Read(~/a/b*c/d)"]}}`, `path = "~/a"`, `path = "."`, "left out"},
		{"claude-code", `{"permissions":{"deny":["Read(~/a/b*c/d)"]}}`, "\x00", `path = "~/a"`, "in its place"},
		{"claude-code", `{"permissions":{"defaultMode":"bypassPermissions","disableBypassPermissionsMode":"disable"}}`, `security = "full"`, `security = "allowlist"`, "disabled"},
		{"claude-code", `{"permissions":{"defaultMode":"bypassPermissions"}}`, "\x00", `security = "full"`, ""},
		{"claude-code", `{"permissions":{"allow":["WebFetch(domain:a.x.com)"],"deny":["WebFetch(domain:*.x.com)"]}}`, "\x00", "[[authorities.global.access.net]]\n# f: permissions.deny\nhost = \"*.x.com\"", ""},
		{"llm-proxy", "access_policies: [{name: a, model_pattern: '.*', default_policy: deny, allowed_patterns: ['\\*', 'read\\*', '[*x]']}]\n", `*`, "", "allowed_patterns"},
		{"agents-kt", kt(`"policy":{"filesystem":{"read":{"mode":"globs","globs":["/safe/../etc/**"]}}}`), `"/etc"`, `fs = "deny"`, "left out"},
		{"agents-kt", kt(`"policy":{"filesystem":{"read":{"mode":"globs","globs":["/safe/**"]}}}`), "\x00", `"/safe"`, ""},
		{"agents-kt", kt(`"risk":"low","policy":{"risk":"critical"}`), `"low"`, `risk = "critical"`, ""},
		{"openclaw", `{agents:{defaults:{sandbox:{mode:'all',workspaceAccess:'ro'}}}}`, "\x00", "[[authorities.sandbox.access.fs]]\n# f: agents.defaults.sandbox.workspaceAccess\npath = \".\"\nread = true\nexecute = true", ""},
		{"openclaw", `{agents:{list:[{id:'a',sandbox:{workspaceAccess:'none'}}]}}`, "\x00", "[[authorities.agent.a.access.fs]]\n# f: agents.list[0].sandbox.workspaceAccess\npath = \".\"\n\n", ""},
	} {
		r, err := Import(x.from, "f", []byte(x.text))
		childtest.Must(t, err)
		text := string(r.Policy)
		if x.without == "*" {
			text = strings.ReplaceAll(text, "mcp__*", "")
		}
		if strings.Contains(text, x.without) || !strings.Contains(text, x.with) {
			t.Errorf("%s %s: without %q, with %q:\n%s", x.from, x.text, x.without, x.with, text)
		}
		if left := strings.Join(r.Left, "\n"); (left != "") != (x.left != "") || !strings.Contains(left, x.left) {
			t.Errorf("%s %s: left out: %q, want %q", x.from, x.text, left, x.left)
		}
	}
}

func kt(tool string) string {
	return `{"agentsKtManifestVersion":1,"agents":[{"name":"a","tools":[{"name":"t",` + tool + `}]}]}`
}

// Each table's unknown keys are listed.
func TestUnknownKeys(t *testing.T) {
	for from, texts := range map[string][]string{
		"openclaw": {
			"{zz:1}", "{tools:{zz:1}}", "{tools:{sandbox:{zz:1}}}", "{tools:{sandbox:{tools:{zz:['a']}}}}", "{tools:{subagents:{zz:1}}}", "{tools:{exec:{zz:1}}}",
			"{agents:{defaults:{zz:1}}}", "{agents:{defaults:{sandbox:{docker:{zz:1}}}}}", "{agents:{list:[{id:'a',zz:1}]}}", "{agents:{list:[{id:'a',sandbox:{zz:1}}]}}",
			"{plugins:{deny:['p']}}", "{plugins:{enabled:false}}", "{tools:{byProvider:{openai:{zz:1}}}}",
		},
		"claude-code": {`{"zz":1}`, `{"permissions":{"zz":1}}`, `{"hooks":{}}`},
		"llm-proxy":   {"zz: 1", "sandboxing: {zz: 1}", "session: {zz: 1}", "session: {tool_call_reactor: {zz: 1}}", "access_policies: [{name: a, model_pattern: '.*', default_policy: deny, zz: 1}]"},
		"agents-kt": {
			`{"agentsKtManifestVersion":1,"zz":1}`, kt(`"zz":1`), kt(`"policy":{"zz":1}`), kt(`"policy":{"filesystem":{"zz":1}}`), kt(`"policy":{"network":{"mode":"denyall","zz":1}}`),
			kt(`"constraints":{"zz":1}`), `{"agentsKtManifestVersion":1,"agents":[{"name":"a","humanOversight":{"required":true}}]}`,
		},
		"jp": {"zz = 1", "[conversation]\nzz = 1", "[conversation.tools.x]\nsource = 'local'\nzz = 1", "[conversation.tools.x]\nsource = 'local'\naccess.zz = 1", "[conversation.tools.x]\nsource = 'local'\naccess.fs = [{ path = 'a', zz = true }]"},
	} {
		for _, text := range texts {
			if r, err := Import(from, "f", []byte(text)); err == nil && len(r.Left) == 0 {
				t.Errorf("%s %s: nothing is listed", from, text)
			}
		}
	}
}
