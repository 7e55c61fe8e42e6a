package policyfile

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// toolSet loads the tool layer of a session's file, and of a host's if there is one.
func toolSet(t testing.TB, session, host string) *toolset.Set {
	t.Helper()
	req, files := request("p.toml"), tree{"/w/p.toml": policyText(session), "/w/s.json": `{"type":"object","properties":{"pattern":{}}}`}
	if host != "" {
		req.HostDir, files["/h/h.toml"] = "/h", policyText(host)
	}
	_, doc, err := Load(req, files)
	childtest.Must(t, err)
	return doc.Tools()
}

// summary is what Settings has, but for what is as usual: no marks, no constraints, and the built-in parameters.
func summary(s *toolset.Settings) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s", s.Source, s.Kind, s.Risk)
	if s.Ask != "" {
		b.WriteString(" ask=" + s.Ask)
	}
	for i, yes := range []bool{s.OwnerOnly, s.Forbidden, s.Exclude} {
		if yes {
			b.WriteString([]string{" owner_only", " forbidden", " exclude"}[i])
		}
	}
	if s.MaxInvocations > 0 {
		fmt.Fprintf(&b, " max=%d", s.MaxInvocations)
	}
	for _, p := range s.OnlyAfter {
		b.WriteString(" after=" + p.Text)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Parameters)) {
		if r := s.Rules["parameters."+name]; !r.Builtin() {
			b.WriteString(" " + name + "=" + s.Parameters[name])
		}
	}
	return b.String()
}

func TestSettings(t *testing.T) {
	for _, row := range []struct{ name, tool, session, host, want string }{
		{"nothing said", "x", "", "", "local  high"},
		{"a built-in kind", "Read", "", "", "local read low"},
		{"a spelling of it", "write-file", "", "", "local create medium"},
		{"the MCP file system server", "fs|read_text_file", "", "", "mcp read low"},
		{"another server's tool of a built-in name", "evil|Bash", "", "", "mcp  high"},
		{"tool_patterns", "copy_file", "", "", "local modify medium"},
		{"tool_patterns of a file", "save_all", "[gate]\ntool_patterns = [\"save_*\"]", "", "local modify medium"},
		{"they don't give a server's tool a kind", "evil|save_all", "[gate]\ntool_patterns = [\"save_*\"]", "", "mcp  high"},
		{"a table knows better", "save_all", "[gate]\ntool_patterns = [\"save_*\"]\n[tools.\"s*\"]\nkind = \"create\"", "", "local create medium"},
		{"a file's kind counts before a built-in one", "read", "[tools.\"*\"]\nkind = \"execute\"", "", "local execute high"},
		{"and so does another spelling", "bash", "[tools.Bash]\nkind = \"fetch\"\nrisk = \"low\"", "", "local fetch low"},
		{"the host's before the session's", "x", "[tools.x]\nkind = \"read\"", "[tools.x]\nkind = \"modify\"", "local modify medium"},
		{"patterns, key by key", "fs_a", "[tools.\"fs_*\"]\nrisk = \"low\"\nask = \"always\"\n[tools.fs_a]\nrisk = \"medium\"\n[tools.\"*\"]\nrisk = \"critical\"\nkind = \"list\"", "", "local list medium ask=always"},
		{"the highest risk", "x", "[tools.x]\nrisk = \"critical\"\nask = \"off\"", "[tools.x]\nrisk = \"low\"\nask = \"on-miss\"", "local  critical ask=on-miss"},
		{"what is built in is set by nobody", "read", "[tools.read]\nrisk = \"low\"", "[gate]\n", "local read low"},
		{"marks of either", "x", "[tools.x]\nowner_only = true\nconstraints.forbidden = false", "[tools.x]\nowner_only = false\nconstraints.forbidden = true", "local  high owner_only forbidden"},
		{"max_invocations", "x", "[tools.x]\nconstraints.max_invocations = 3", "[tools.x]\nconstraints.max_invocations = 9", "local  high max=3"},
		{"only_after of both", "x", "[tools.x]\nconstraints.only_after = [\"b\"]", "[tools.x]\nconstraints.only_after = [\"a\"]", "local  high after=a after=b"},
		{"only_after of the special pattern", "x", "[tools]\n\"*\" = { constraints.only_after = [\"a\"] }\nx = { constraints.only_after = [] }", "", "local  high"},
		{"a table for the bare name restricts", "s|x", "[tools.x]\nkind = \"read\"\nrisk = \"critical\"\nask = \"always\"\nowner_only = true\nconstraints = { max_invocations = 2, only_after = [\"a\"] }\nparameters.p = \"text\"\nsource = \"local\"", "", "mcp  critical ask=always owner_only max=2 after=a"},
		{"and takes nothing away", "s|x", "[tools]\n\"mcp__*\" = { risk = \"high\", ask = \"always\", owner_only = true, constraints.max_invocations = 2 }\nx = { risk = \"low\", ask = \"off\", owner_only = false, constraints.max_invocations = 9 }", "", "mcp  high ask=always owner_only max=2"},
		{"exclude has the full name", "s|x", "[gate]\nexclude = [\"x\"]", "", "mcp  high"},
		{"exclude", "s|x", "[gate]\nexclude = [\"mcp__s__*\"]", "", "mcp  high exclude"},
		{"exclude of one author", "x", "[gate]\nexclude = [\"x\"]", "[gate]\n", "local  high"},
		{"exclude of both", "x", "[gate]\nexclude = [\"*\"]", "[gate]\nexclude = [\"x\"]", "local  high exclude"},
		{"roles", "x", "[gate]\nparameters = { A = \"url\", b = \"text\" }\n[tools.x]\npath_parameters = [\"B\"]", "", "local  high a=url b=path"},
		{"a file's role counts before a built-in table's", "glob", "[gate]\nparameters.pattern = \"text\"", "", "local list low pattern=text"},
		{"text of one author", "x", "[gate]\nparameters = { path = \"text\", q = \"text\" }", "[gate]\n", "local  high"},
		{"text of both", "x", "[gate]\nparameters = { path = \"text\", a = \"text\" }", "[tools.x]\nparameters = { path = \"text\", a = \"path\" }", "local  high a=path path=text"},
		{"the host's role", "x", "[gate]\nparameters = { a = \"url\" }", "[gate]\nparameters = { a = \"path\" }", "local  high a=path"},
		{"a session doesn't replace a built-in role where there's a host", "Bash", "[tools.Bash]\nparameters = { command = \"cwd\", note = \"path\" }", "[gate]\n", "local execute high note=path"},
		{"without a host it does", "Bash", "[tools.Bash]\nparameters = { command = \"cwd\" }", "", "local execute high command=cwd"},
		{"nor does it replace a kind", "Write", "[tools.Write]\nkind = \"list\"", "[gate]\n", "local create medium"},
		{"nor by an alias", "bash", "[tools.foo]\nkind = \"list\"\naliases = [\"bash\"]", "[gate]\n", "local execute high"},
		{"nor what tool_patterns give", "save_all", "[tools.save_all]\nkind = \"list\"", "[gate]\ntool_patterns = [\"save_*\"]", "local modify medium"},
		{"a host replaces what is built in", "Write", "[tools.Write]\nkind = \"create\"", "[tools.Write]\nkind = \"list\"\nparameters.path = \"url\"", "local list low path=url"},
		{"a session has a built-in text judged", "skill", "[tools.skill]\nparameters.command = \"command\"", "[gate]\n", "local  high command=command"},
		{"an alias", "run_it", "[tools.Bash]\naliases = [\"run_it\"]\nask = \"always\"", "", "local execute high ask=always"},
		{"a group", "read", "[tools.\"group:fs\"]\nask = \"always\"", "", "local read low ask=always"},
		{"a plugin", "lookup", "[tools]\nlookup = { plugin = \"contacts\" }\n[tools.\"group:contacts\"]\nask = \"always\"", "", "local  high ask=always"},
	} {
		t.Run(row.name, func(t *testing.T) {
			name, bare := row.tool, ""
			if server, tool, ok := strings.Cut(row.tool, "|"); ok {
				name, bare = "mcp__"+server+"__"+tool, tool
			}
			if got := summary(toolSet(t, row.session, row.host).Settings(name, bare)); got != row.want {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// Each setting has the rule that decided.
func TestSettingsRules(t *testing.T) {
	set := toolSet(t, "[tools.Bash]\nrisk = \"critical\"\nparameters.note = \"path\"\n[gate]\nexclude = [\"bash\"]", "[tools.bash]\nconstraints.forbidden = true\nask = \"always\"\n[gate]\nexclude = [\"b*\"]")
	s := set.Settings("bash", "")
	for key, want := range map[string]string{
		"risk": "tools.Bash.risk p.toml:3", "constraints.forbidden": "host.tools.bash.constraints.forbidden /h/h.toml:3", "ask": "host.tools.bash.ask /h/h.toml:4",
		"kind": "tools.bash.kind builtin:tools", "exclude": "gate.exclude p.toml:6", "parameters.note": "tools.Bash.parameters.note p.toml:4",
		"parameters.command": "gate.parameters.command builtin:tools",
	} {
		r := s.Rules[key]
		if got := fmt.Sprintf("%s %s:%d", r.ID, r.At.File, r.At.Line); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
	if s.Name != "bash" || !s.Forbidden || s.OwnerOnly || !s.Exclude {
		t.Errorf("%+v", s)
	}
}

// The built-in names of arguments, those of argv for programs alone; a file can replace the paths.
func TestBuiltinRoles(t *testing.T) {
	set := toolSet(t, "", "")
	bash, read := set.Settings("Bash", "").Parameters, set.Settings("x", "").Parameters
	for name, want := range map[string]string{"path": "path", "filename": "path", "patch": "patch", "uri": "url", "cmd": "command", "args": "argv", "workdir": "cwd", "content": ""} {
		if bash[name] != want {
			t.Errorf("%s: %q, want %q", name, bash[name], want)
		}
	}
	if read["args"] != "" || read["argv"] != "" || read["path"] != "path" {
		t.Errorf("%v", read)
	}
	own := toolSet(t, "[gate]\npath_parameters = { strategy = \"replace\", value = [\"card\"] }\nparameters.argv = \"argv\"", "")
	if p := own.Settings("x", "").Parameters; p["path"] != "" || p["card"] != "path" || p["url"] != "url" || p["argv"] != "argv" {
		t.Errorf("%v", p)
	}
	if p := toolSet(t, "[gate]\npath_parameters = { strategy = \"replace\", value = [] }", "[gate]\n").Settings("x", "").Parameters; p["path"] != "path" {
		t.Errorf("one author takes the built-in names away: %v", p)
	}
}

// A local tool is one author's: its command, with its schema.
func TestLocalTool(t *testing.T) {
	const session = "[tools.search]\ndescription = \"d\"\ncommand = [\"rg\", \"--\", \"{pattern}\"]\nschema = \"s.json\"\n"
	s := toolSet(t, session, "").Settings("search", "")
	if !slices.Equal(s.Command, []string{"rg", "--", "{pattern}"}) || s.Description != "d" || s.Schema == nil || s.Schema.Rule.ID != "tools.search.schema" || !json.Valid(s.Schema.Text) {
		t.Errorf("%+v", s)
	}
	if s := toolSet(t, session, "[tools.search]\ncommand = [\"grep\"]\n").Settings("search", ""); !slices.Equal(s.Command, []string{"grep"}) || s.Schema != nil {
		t.Errorf("%+v", s)
	}
	inline := toolSet(t, "[tools.search]\ncommand = [\"rg\", \"{n}\"]\nschema = { type = \"object\", properties.n = { type = \"integer\", minimum = 1 } }\n", "")
	const want = `{"properties":{"n":{"minimum":1,"type":"integer"}},"type":"object"}`
	if s := inline.Settings("search", "").Schema; s == nil || string(s.Text) != want {
		t.Errorf("%+v", s)
	}
	if s := inline.Settings("mcp__x__search", "search"); s.Command != nil || s.Schema != nil {
		t.Errorf("a server's tool is a local one: %+v", s)
	}
}

func TestGate(t *testing.T) {
	for _, row := range []struct{ name, session, host, want string }{
		{"nothing said", "", "", "enabled auto"},
		{"off", "enabled = false", "", "auto"},
		{"either", "enabled = false\nstrict = true\nshell = \"zsh\"", "enabled = true", "enabled strict host zsh"},
		{"both off", "enabled = false", "enabled = false", "auto"},
		{"the host's table is enough", "enabled = false", "strict = true", "enabled strict host auto"},
		{"any of the host's files is enough", "enabled = false", "\n[approvals]\nsecurity = \"deny\"", "enabled host auto"},
		{"the session turns it on", "enabled = true", "enabled = false", "enabled auto"},
		{"parents of one author", "allow_parent_access = true", "strict = false", "enabled host auto"},
		{"parents of both", "allow_parent_access = true", "allow_parent_access = true", "enabled parents host auto"},
		{"parents without a host", "allow_parent_access = true\nshell = \"bash\"", "", "enabled parents bash"},
		{"two shells", "shell = \"bash\"", "shell = \"posix\"", "enabled host auto"},
		{"one shell", "shell = \"bash\"", "shell = \"bash\"", "enabled host bash"},
	} {
		host := row.host
		if host != "" {
			host = "[gate]\n" + host
		}
		g := toolSet(t, "[gate]\n"+row.session, host).Gate()
		var got []string
		for _, w := range []struct {
			word string
			yes  bool
		}{{"enabled", g.Enabled}, {"strict", g.Strict}, {"parents", g.AllowParentAccess}, {"host", g.Host}, {g.Shell, true}} {
			if w.yes {
				got = append(got, w.word)
			}
		}
		if s := strings.Join(got, " "); s != row.want {
			t.Errorf("%s: %s, want %s", row.name, s, row.want)
		}
	}
}

func TestApprovals(t *testing.T) {
	for _, row := range []struct{ name, agent, session, host, want string }{
		{"nothing said", "", "", "", "false allowlist on-miss deny 2m0s"},
		{"one author", "", "security = \"full\"\nask = \"off\"\nask_fallback = \"full\"\ntimeout = \"1s\"", "", "true full off full 1s"},
		{"the fallback is never looser", "", "security = \"deny\"\nask_fallback = \"full\"", "", "true deny on-miss deny 2m0s"},
		{"the strictest", "", "security = \"full\"\nask = \"always\"\ntimeout = \"1h\"", "security = \"allowlist\"\nask = \"off\"\ntimeout = \"5m\"", "true allowlist always deny 5m0s"},
		{"what the host doesn't say", "", "security = \"full\"\nask_fallback = \"full\"", "timeout = \"5m\"", "true full on-miss full 5m0s"},
		{"an agent's own", "bot", "ask = \"always\"\nagents.bot = { ask = \"off\", security = \"deny\" }", "", "true deny off deny 2m0s"},
		{"another agent", "x", "ask = \"always\"\nagents.bot = { ask = \"off\", security = \"deny\" }", "", "true allowlist always deny 2m0s"},
		{"agents alone", "x", "agents.bot = { ask = \"off\" }", "", "true allowlist on-miss deny 2m0s"},
	} {
		session, host := row.session, row.host
		if session != "" {
			session = "[approvals]\n" + session
		}
		if host != "" {
			host = "[approvals]\n" + host
		}
		a := toolSet(t, session, host).Approvals(row.agent)
		if got := fmt.Sprintf("%t %s %s %s %s", a.Given, a.Security, a.Ask, a.AskFallback, a.Timeout); got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

// The table of decisions of the grammar, and two authors of which neither loosens the other.
func TestApprovalDecisions(t *testing.T) {
	for _, row := range []struct{ session, host, tool, listed, unlisted string }{
		{"security = \"deny\"\nask = \"always\"", "", "Bash", "deny", "deny"},
		{"security = \"deny\"\nask = \"on-miss\"", "", "Bash", "deny", "deny"},
		{"security = \"deny\"\nask = \"off\"", "", "Bash", "deny", "deny"},
		{"ask = \"off\"", "", "Bash", "run", "deny"},
		{"ask = \"on-miss\"", "", "Bash", "run", "ask"},
		{"security = \"full\"", "", "Bash", "run", "run"},
		{"security = \"full\"\nask = \"off\"", "", "Bash", "run", "run"},
		{"ask = \"always\"", "", "Bash", "ask", "ask"},
		{"security = \"full\"\nask = \"always\"", "", "Bash", "ask", "ask"},
		{"ask = \"always\"", "", "read", "run", "run"},
		{"ask = \"off\"", "", "ask_read", "ask", "ask"},
		{"ask = \"off\"", "", "AskBash", "ask", "ask"},
		{"ask = \"always\"", "ask = \"off\"", "Bash", "ask", "deny"},
		{"security = \"full\"\nask = \"off\"", "security = \"allowlist\"", "Bash", "run", "deny"},
		{"security = \"full\"\nask = \"off\"", "ask = \"on-miss\"", "Bash", "run", "run"},
		{"security = \"full\"", "timeout = \"1m\"", "Bash", "run", "run"},
		{"security = \"full\"", "ask = \"always\"", "OffBash", "ask", "ask"},
	} {
		host := row.host
		if host != "" {
			host = "[approvals]\n" + host
		}
		set := toolSet(t, "[tools]\nask_read = { ask = \"always\" }\nAskBash = { kind = \"execute\", ask = \"always\" }\nOffBash = { kind = \"execute\", ask = \"off\" }\n[approvals]\n"+row.session, host)
		s, a := set.Settings(row.tool, ""), set.Approvals("")
		for listed, want := range map[bool]string{true: row.listed, false: row.unlisted} {
			got, rule := a.Decide(s, s.Kind == "execute", listed)
			if got != want || got == "run" != (rule.ID == "") {
				t.Errorf("%q, %q, %s, listed %t: %s (%s), want %s", row.session, row.host, row.tool, listed, got, rule.ID, want)
			}
		}
	}
}

// Without an answer the fallback decides, which is never looser than security, with two authors neither.
func TestApprovalFallback(t *testing.T) {
	const byDefault = ""
	for _, row := range []struct{ session, host, listed, unlisted, rule string }{
		{"", "", "deny", "deny", byDefault},
		{"timeout = \"1m\"", "", "deny", "deny", byDefault},
		{"security = \"full\"\nask = \"always\"", "", "deny", "deny", byDefault},
		{"ask_fallback = \"deny\"", "", "deny", "deny", "approvals.ask_fallback"},
		{"ask_fallback = \"allowlist\"", "", "run", "deny", "approvals.ask_fallback"},
		{"ask_fallback = \"full\"", "", "run", "deny", "approvals.ask_fallback"}, // raised to the default
		{"security = \"allowlist\"\nask_fallback = \"full\"", "", "run", "deny", "approvals.security"},
		{"security = \"deny\"\nask_fallback = \"full\"", "", "deny", "deny", "approvals.security"},
		{"security = \"full\"\nask = \"always\"\nask_fallback = \"allowlist\"", "", "run", "deny", "approvals.ask_fallback"},
		{"security = \"full\"\nask = \"always\"\nask_fallback = \"full\"", "", "run", "run", ""},
		{"security = \"full\"\nask_fallback = \"full\"", "security = \"allowlist\"", "run", "deny", "host.approvals.security"},
		{"security = \"full\"\nask_fallback = \"full\"", "ask_fallback = \"deny\"", "deny", "deny", "host.approvals.ask_fallback"},
		{"security = \"full\"\nask_fallback = \"full\"", "timeout = \"5m\"", "run", "run", ""},
	} {
		session, host := "[approvals]\n"+row.session, "[approvals]\n"+row.host
		a := toolSet(t, session, host).Approvals("")
		for listed, want := range map[bool]string{true: row.listed, false: row.unlisted} {
			got, rule := a.Fallback(listed)
			wantRule := row.rule
			if want == "run" {
				wantRule = ""
			}
			if got != want || rule.ID != wantRule {
				t.Errorf("%q, %q, listed %t: %s (%s), want %s (%s)", row.session, row.host, listed, got, rule.ID, want, wantRule)
			}
		}
	}
}

func TestHooks(t *testing.T) {
	set := toolSet(t, "[[hooks.before_tool_call]]\ncommand = [\"./check\"]\ntools = [\"bash\"]\n[[hooks.after_tool_call]]\nurl = \"http://127.0.0.1/\"\ntimeout = \"1s\"\n",
		"[[hooks.before_tool_call]]\ncommand = [\"/h/check\"]\n")
	before, after := set.Hooks()
	if len(before) != 2 || len(after) != 1 || before[0].Dir != "/h" || before[1].Dir != "/w" || before[1].Timeout != 5*time.Second || after[0].Timeout != time.Second {
		t.Fatalf("%+v, %+v", before, after)
	}
	for _, row := range []struct {
		name, bare string
		want       bool
	}{{"Bash", "", true}, {"mcp__x__bash", "bash", true}, {"read", "", false}} {
		if got := before[1].For(row.name, row.bare); got != row.want || !before[0].For(row.name, row.bare) {
			t.Errorf("%s: %t", row.name, got)
		}
	}
	if r := before[0].Rule; r.ID != "host.hooks.before_tool_call" || r.At.Line != 2 {
		t.Errorf("%+v", r)
	}
}

// A server's tool doesn't count as the one that has to be called before.
func TestPredecessor(t *testing.T) {
	p := toolSet(t, "[tools.x]\nconstraints.only_after = [\"group:fs\"]", "").Settings("x", "").OnlyAfter[0]
	if !p.Matches("Read", "") || p.Matches("mcp__evil__read", "read") || p.Matches("y", "") {
		t.Error("only_after is met by another tool")
	}
}
