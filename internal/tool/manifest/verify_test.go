package manifest_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/event"
	"github.com/toolguard/toolguard/internal/policy/policyload"
	"github.com/toolguard/toolguard/internal/tool/manifest"
	"github.com/toolguard/toolguard/internal/tool/manifest/load"
)

// generate returns the manifest of a policy's text.
func generate(t *testing.T, text string) *manifest.Manifest {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "p.toml")
	childtest.Must(t, os.WriteFile(file, []byte("version = 1\n"+text), 0o600))
	m, err := load.Generate(policyload.Options{Files: []string{file}, Dir: dir, Workspace: dir})
	childtest.Must(t, err)
	out, err := m.JSON()
	childtest.Must(t, err)
	if strings.Contains(string(out), dir) {
		t.Errorf("the manifest has the folder %s:\n%s", dir, out)
	}
	m, err = manifest.Parse(out)
	childtest.Must(t, err)
	return m
}

// The rows of the reference's verifier, and those that it lacks. Each is a widening in one direction, and none in the other one.
func TestVerify(t *testing.T) {
	const tool = "[tools.x]\nkind = \"execute\"\nrisk = \"low\"\n"
	for _, x := range []struct{ name, old, new, want string }{
		{"a new tool of high risk", "authorities.global.allow = [\"y\"]\n", "authorities.global.allow = [\"y\", \"x\"]\n[tools.x]\nrisk = \"high\"\n", "tool.added.high-risk"},
		{"a new tool", "authorities.global.allow = [\"y\"]\n", "authorities.global.allow = [\"y\", \"x\"]\n[tools.x]\nrisk = \"low\"\n", "tool.added"},
		{"a table for a tool that all see", "", "[tools.x]\nrisk = \"low\"\nconstraints.max_invocations = 1\n", ""},
		{"a new local tool", "", "[tools.x]\nrisk = \"low\"\ncommand = [\"ls\"]\n", "tool.added"},
		{"access of a new table", "[tools.\"x_*\"]\naccess.default.net = \"deny\"\n", "[tools.\"x_*\"]\naccess.default.net = \"deny\"\n[tools.x_y]\naccess.default.net = \"allow\"\n", "tool.network.widened"},
		{"a number of calls of a new table", "[tools.\"x_*\"]\nconstraints.max_invocations = 1\n", "[tools.\"x_*\"]\nconstraints.max_invocations = 1\n[tools.x_y]\nconstraints.max_invocations = 2\n", "limit.raised"},
		{"a higher risk", tool, strings.Replace(tool, "low", "high", 1), "tool.risk.increased"},
		{"deny to allow", tool + "access.default.commands = \"deny\"\n", tool + "access.default.commands = \"allow\"\n", "tool.exec.widened"},
		{"deny to undeclared", "[access]\ndefault.commands = \"deny\"\n", "", "tool.exec.widened"},
		{"one more host", tool + "access.net = [{ host = \"a.com\", allow = true }]\n", tool + "access.net = [{ host = \"a.com\", allow = true }, { host = \"b.com\", allow = true }]\n", "tool.network.widened"},
		{"every host", tool + "access.net = [{ host = \"a.com\", allow = true }]\n", tool + "access.default.net = \"allow\"\n", "tool.network.widened"},
		{"one more folder to write", tool + "access.fs = [{ path = \"a\", write = true }]\n", tool + "access.fs = [{ path = \"a\", write = true }, { path = \"b\", write = true }]\n", "tool.filesystem.write.widened"},
		{"one more folder to read", "[access]\nfs = [{ path = \"a\", read = true }]\n", "[access]\nfs = [{ path = \".\", read = true }]\n", "tool.filesystem.read.widened"},
		{"one more variable", "[access]\nenv = [{ name = \"A\", read = true }]\n", "[access]\nenv = [{ name = \"A*\", read = true }]\n", "tool.environment.widened"},
		{"a folder that is in a granted one", "[access]\nfs = [{ path = \"a\", read = true }]\n", "[access]\nfs = [{ path = \"a\", read = true }, { path = \"a/b\", read = true }]\n", ""},
		{"a denial of an agent", "[authorities]\nagent.r = { access.default.net = \"deny\", deny = [\"y\"] }\n[access]\ndefault.net = \"allow\"\n", "[authorities]\nagent.r = { deny = [\"y\"] }\n[access]\ndefault.net = \"allow\"\n", "tool.network.widened"},
		{"a denied tool", "[authorities]\nglobal = { deny = [\"y\"] }\n", "[authorities]\nglobal = {}\n", "tool.visible.widened"},
		{"a constraint", tool + "constraints = { only_after = [\"y\"] }\n", tool, "constraint.removed"},
		{"a number of calls", tool + "constraints.max_invocations = 1\n", tool + "constraints.max_invocations = 2\n", "limit.raised"},
		{"an approval", "[approvals]\nask = \"always\"\n", "[approvals]\nsecurity = \"full\"\n", "approval.weakened"},
		{"nobody is asked, and then nobody needs to be", "[tools.Bash]\nkind = \"execute\"\n", "approvals = { security = \"full\", ask = \"off\" }\n[tools.Bash]\nkind = \"execute\"\n", "approval.weakened"},
		{"a tool about which nobody can be asked", "[tools.Bash]\nkind = \"execute\"\nask = \"always\"\n", "[tools.Bash]\nkind = \"execute\"\n", "approval.weakened"},
		{"an excluded tool", "", "gate.exclude = [\"secret_*\"]\n", "gate.weakened"},
		{"excluded tools by their names", "", "gate.exclude = [\"read\", \"Bash\"]\n", "gate.weakened"},
		{"a hook for a pattern", "hooks.before_tool_call = [{ command = [\"/bin/true\"], tools = [\"deploy_*\"] }]\n", "", "hook.removed"},
		{"a hook for a group", "hooks.before_tool_call = [{ command = [\"/bin/true\"], tools = [\"group:fs\"] }]\n", "", "hook.removed"},
		{"a hook for fewer tools", "hooks.before_tool_call = [{ command = [\"/bin/true\"], tools = [\"mcp__*\"] }]\n", "hooks.before_tool_call = [{ command = [\"/bin/true\"], tools = [\"mcp__safe__*\"] }]\n", "hook.removed"},
		{"a smaller group of a hook", "hooks.before_tool_call = [{ command = [\"/bin/true\"], tools = [\"group:g\"] }]\n[groups]\ng = [\"a\", \"b\"]\n", "hooks.before_tool_call = [{ command = [\"/bin/true\"], tools = [\"group:g\"] }]\n[groups]\ng = [\"a\"]\n", "hook.removed"},
		{"more time for a hook", "hooks.before_tool_call = [{ command = [\"/bin/true\"], timeout = \"1s\" }]\n", "hooks.before_tool_call = [{ command = [\"/bin/true\"], timeout = \"9s\" }]\n", "gate.weakened"},
		{"a role that judges as much", "gate.parameters = { out = \"path\" }\n", "gate.parameters = { out = \"patch\" }\n", ""},
		{"an unknown tool under strict", "gate.strict = true\n", "gate.strict = true\ntools.foo.kind = \"read\"\n", "gate.weakened"},
		{"a kind with the same capabilities", "tools.foo.kind = \"list\"\n", "tools.foo.kind = \"read\"\n", ""},
		{"only after a part of a group", tool + "constraints.only_after = [\"group:fs\"]\n", tool + "constraints.only_after = [\"read\"]\n", ""},
		{"only after a larger group", "groups.g = [\"read\"]\n" + tool + "constraints.only_after = [\"group:g\"]\n", "groups.g = [\"*\"]\n" + tool + "constraints.only_after = [\"group:g\"]\n", "constraint.removed"},
		{"the variables of a command", "access.commands.git = { args = [[\"**\"]], envs = [\"PATH\"] }\n", "access.commands.git = { args = [[\"**\"]] }\n", "tool.environment.widened"},
		{"the grants of an agent's provider", "[access]\ndefault.net = \"allow\"\n[authorities]\nagent.a.providers.openai = { access.default = { net = \"deny\" } }\n", "[access]\ndefault.net = \"allow\"\n[authorities]\nagent.a = {}\n", "tool.network.widened"},
		{"a schema", tool + "command = [\"ls\", \"--\", \"{p}\"]\nschema = { type = \"object\", properties = { p = { type = \"string\", enum = [\"a\"] } }, required = [\"p\"] }\n", tool + "command = [\"ls\", \"--\", \"{p}\"]\n", "constraint.removed"},
		{"a variable that isn't named as an example", "access.env = []\naccess.default.env = \"deny\"\n", "[access]\ndefault.env = \"deny\"\nenv = [{ name = \"FOO_*\", read = true }, { name = \"FOO_EXAMPLE*\", read = false }, { name = \"FOO_EXAMPLE0*\", read = false }, { name = \"FOO_Z9*\", read = false }]\n", "tool.environment.widened"},
		{"programs but for the known ones", "access.default.commands = \"deny\"\n", "[access]\ndefault.commands = \"allow\"\ncommands = { true = { args = [] }, false = { args = [] }, id = { args = [] }, ls = { args = [] }, cat = { args = [] }, env = { args = [] }, sleep = { args = [] }, uname = { args = [] } }\n", "tool.exec.widened"},
		{"a pattern but for the usual names", "access.fs = [{ path = \"src\", read = true }]\n", "access.fs = [{ path = \"src\", read = true }, { match = \"data/**/*.key\", read = true }, { path = \"data/example.key\" }, { path = \"data/example\" }, { match = \"data/example/**/*.key\" }, { match = \"data/example.key/**/*.key\" }]\n", "tool.filesystem.read.widened"},
		{"hosts but for the usual ones", "access.default.net = \"deny\"\n", "[access]\ndefault.net = \"allow\"\nnet = [{ host = \"*.invalid\", allow = false }, { host = \"localhost\", allow = false }, { host = \"0.0.0.0/0\", allow = false }, { host = \"::/0\", allow = false }]\n", "tool.network.widened"},
		{"an alias of a denied tool", "authorities.global.deny = [\"Bash\"]\ntools.Bash.aliases = [\"shell\"]\n", "authorities.global.deny = [\"Bash\"]\ntools.Bash.risk = \"high\"\n", "tool.visible.widened"},
		{"a list that doesn't apply where its tools are unknown", "authorities.global.profile = \"p\"\nprofiles.p = { allow = [\"y\"], on_unknown = \"report\" }\n", "authorities.global.profile = \"p\"\nprofiles.p = { allow = [\"y\"], on_unknown = \"strip\" }\n", "tool.visible.widened"},
		{"a provider's tools in a group", "authorities.group.f.providers.openai.deny = [\"x\"]\n", "authorities.group.f = {}\nauthorities.provider.openai = {}\n", "tool.visible.widened"},
		{"asking nobody under allowlist", "[approvals]\nask = \"on-miss\"\n", "[approvals]\nask = \"off\"\n", ""},
		{"protect", "[access]\nprotect = true\n", "[access]\nprotect = false\n", "protect.removed"},
		{"secrets", "[access]\nsecrets = true\n", "[access]\nsecrets = false\n", "secrets.removed"},
		{"a hook", "hooks.before_tool_call = [{ command = [\"/bin/true\"] }]\n", "", "hook.removed"},
		{"a strict gate", "gate.strict = true\n", "", "gate.weakened"},
		{"a limit", "limits.pids = 10\n", "limits.pids = 20\n", "limit.raised"},
		{"a deeper sub-agent", "[authorities]\nsubagent = { max_depth = 1 }\n", "[authorities]\nsubagent = { max_depth = 3 }\n", "limit.raised"},
		{"an entered tool", tool + "access.default.net = \"allow\"\n[access]\ncommands.git = {}\n", tool + "access.default.net = \"allow\"\n[access]\ncommands.git = { enter = \"tool:x\" }\n", "tool.enter.widened"},
	} {
		t.Run(x.name, func(t *testing.T) {
			old, new := generate(t, x.old), generate(t, x.new)
			r, err := manifest.Verify(old, new)
			childtest.Must(t, err)
			has := slices.ContainsFunc(r.Widenings, func(w manifest.Widening) bool { return w.Code == x.want })
			if x.want == "" && len(r.Widenings) > 0 || x.want != "" && !has {
				t.Errorf("got %+v, and not %q", r.Widenings, x.want)
			}
			back, err := manifest.Verify(new, old)
			childtest.Must(t, err)
			if slices.ContainsFunc(back.Widenings, func(w manifest.Widening) bool { return w.Code == x.want }) {
				t.Errorf("the reverse has %+v", back.Widenings)
			}
		})
	}
}

// Neither of two policies permits less than the other one: each asks about something that the other one allows.
func TestVerifyBothWays(t *testing.T) {
	for _, x := range []struct{ name, old, new, want string }{
		{"approvals for calls that ran", "[approvals]\nask = \"always\"\n", "", "approval.weakened"},
		{"a pattern of tools that change files", "gate.tool_patterns = [\"save_*\"]\n", "", "gate.weakened"},
		{"a role that isn't judged", "gate.parameters = { out = \"path\" }\n", "gate.parameters = { out = \"cwd\" }\n", "gate.weakened"},
	} {
		t.Run(x.name, func(t *testing.T) {
			old, new := generate(t, x.old), generate(t, x.new)
			for _, pair := range [][2]*manifest.Manifest{{old, new}, {new, old}} {
				r, err := manifest.Verify(pair[0], pair[1])
				childtest.Must(t, err)
				if !slices.ContainsFunc(r.Widenings, func(w manifest.Widening) bool { return w.Code == x.want }) {
					t.Errorf("got %+v, and not %q", r.Widenings, x.want)
				}
			}
		})
	}
}

// A use that isn't declared fails; what isn't used, and tools without a table, are reports.
func TestCompare(t *testing.T) {
	m := generate(t, "[access]\nfs = [{ path = \"src\", read = true }]\ndefault.net = \"deny\"\n[tools.x]\naccess.fs = [{ path = \"data\", read = true }]\n[tools.idle]\nrisk = \"low\"\n")
	var uses []manifest.Use
	for _, e := range []event.Event{
		{Kind: event.ToolCall, Target: "x"},
		{Kind: event.ToolCall, Target: "unknown"},
		{Kind: event.Denial, Resource: "fs", Capability: "read+update", Target: "/w/src/a", Count: 3},
		{Kind: event.Denial, Resource: "fs", Capability: "read", Target: "/w/data/a", Tool: "x"},
		{Kind: event.Denial, Resource: "net", Capability: "connect", Target: "https://a.com/"},
	} {
		uses = append(uses, manifest.Uses(&e)...)
	}
	c, err := manifest.Compare(m, manifest.Place{Workspace: "/w", Home: "/home/u"}, uses)
	childtest.Must(t, err)
	want := []manifest.Undeclared{{"", "fs", "src/a", 1, "widen or remove"}, {"", "net", "https://a.com/", 1, "widen or remove"}}
	if !slices.Equal(c.Undeclared, want) || !slices.Equal(c.NoTable, []string{"unknown"}) || !slices.Equal(c.Unused, []manifest.Unused{{"idle", "tools", "idle"}}) {
		t.Errorf("got %+v", c)
	}
}

// A manifest that was edited, and one of another version, is an error.
func TestParse(t *testing.T) {
	text, err := generate(t, "[tools.x]\nrisk = \"low\"\n").JSON()
	childtest.Must(t, err)
	_, err = manifest.Parse(text)
	childtest.Must(t, err)
	for what, bad := range map[string]string{
		"digest is wrong":  strings.Replace(string(text), "\"low\"", "\"high\"", 1),
		"version is 2":     strings.Replace(string(text), "\"version\": 1", "\"version\": 2", 1),
		"isn't a manifest": strings.Replace(string(text), "toolguard.manifest", "other", 1),
	} {
		if _, err := manifest.Parse([]byte(bad)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
