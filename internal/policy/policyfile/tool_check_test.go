package policyfile

import (
	"fmt"
	"strings"
	"testing"
)

// Each load error of the tool layer has the position of the key that is wrong, and the nearest valid value.
func TestToolMistakes(t *testing.T) {
	for _, row := range []struct{ policy, want string }{
		{"[authorities.global]\nprofile = \"coding\"\nallow = [\"x\"]\nalso_allow = [\"y\"]", `p.toml:5:1: also_allow adds to a profile's list, and this stage has its own: allow (add the tools to allow)`},
		{"[authorities.global]\nalso_allow = [\"y\"]", `p.toml:3:1: also_allow adds to a profile's list, and this stage names no profile (add profile = "NAME")`},
		{"[authorities.global]\nallow = [\"y\"]\non_unknown = \"strip\"", `p.toml:4:14: on_unknown = "strip" is for stages of profiles, providers and groups`},
		{"[authorities.agent.x]\nmax_depth = 2", `p.toml:3:13: max_depth is for sub-agents alone (move it to [authorities.subagent])`},
		{"[authorities.subagent]\ndeny = { strategy = \"replace\", value = [] }", `p.toml:3:8: files can only add to what sub-agents are denied (leave the strategy out)`},
		{"[groups]\na = [\"group:b\"]\nb = [\"group:a\"]", `p.toml:3:1: group "a" is within itself, or more than 16 groups deep: a -> b -> a (take one of them out)` + "\n" +
			`p.toml:4:1: group "b" is within itself, or more than 16 groups deep: b -> a -> b (take one of them out)`},
		{"[profiles.x]\nallow = [\"group:contact\"]\n[tools.lookup]\nplugin = \"contacts\"", `p.toml:3:10: unknown group "contact" (did you mean "contacts"?)`},
		{"[tools.x]\ncommand = []", `p.toml:3:1: command is empty (write command = ["program", "{argument}"])`},
		{"[tools.x]\ncommand = [\"rg\", \"--e={pattern}\"]", `p.toml:3:18: "--e={pattern}" isn't a whole {NAME} (make it an element of its own)`},
		{"[tools.x]\ncommand = [\"rg\", \"{patern}\"]\nschema.properties.pattern = {}", `p.toml:3:18: the schema has no property "patern" (did you mean "pattern"?)`},
		{"[tools.x]\ncommand = [\"rg\"]\n[tools.x.schema]\ntype = \"object\"\nproperties.a = { type = \"integer\", format = \"int32\" }", `p.toml:6:36: schema.properties.a.format is no keyword that toolguard enforces`},
		{"[tools.x]\ncommand = [\"rg\"]\nschema.properties.a.pattern = \"(?=x)\"", "p.toml:4:21: schema.properties.a.pattern is no pattern of RE2: invalid or unsupported Perl syntax: `(?=`"},
		{"[tools.x]\ncommand = [\"rg\"]\nschema.type = \"array\"", `p.toml:4:8: schema.type must be "object": arguments are an object`},
		{"[tools.x]\nparameters = { a = \"paths\" }", `p.toml:3:20: a must be "path", "patch", "url", "command", "argv", "cwd" or "text", not "paths" (did you mean "path"?)`},
		{"[tools.x]\nkind = \"writ\"", `p.toml:3:8: kind must be "read", "list", "create", "modify", "delete", "move", "execute" or "fetch", not "writ"`},
		{"[tools.x]\npath_parameters = [\"a\"]\nparameters = { A = \"text\" }", `p.toml:4:20: argument "a" is given twice (p.toml:3:20) (remove one of them)`},
		{"[gate]\npath_parameters = [\"*_path\"]", `p.toml:3:20: "*_path" is a pattern, and names of arguments are compared whole (write each name)`},
		{"[gate]\nparameters.a = \"txt\"", `p.toml:3:16: a must be "path", "patch", "url", "command", "argv", "cwd" or "text", not "txt" (did you mean "text"?)`},
		{"[gate]\ntool_patterns = [\"save_(a|b)\"]", `p.toml:3:18: no tool can have a name like "save_(a|b)" (a pattern is a name, with * for any run of characters, or group:NAME)`},
		{"[gate]\nexclude = [\"group:wep\"]", `p.toml:3:12: unknown group "wep" (did you mean "web"?)`},
		{"[hooks]\nbefore_tool_call = [{ command = [\"x\"], tools = [\"a b\"] }]", `p.toml:3:49: no tool can have a name like "a b" (a pattern is a name, with * for any run of characters, or group:NAME)`},
		{"[hooks]\nafter_tool_call = [{ command = [\"x\"], timeout = \"61s\" }]", `p.toml:3:49: timeout must be at most "60s", not "61s"`},
		{"[approvals]\ntimeout = \"25h\"", `p.toml:3:11: timeout must be from "1s" to "24h", not "25h"`},
		{"[approvals.agents.a]\ntimeout = \"500ms\"", `p.toml:3:11: timeout must be from "1s" to "24h", not "500ms"`},
		{"[approvals.agents.a.agents.b]\nask = \"off\"", `p.toml:2:21: agent "a" can't have agents of its own`},
		{"[approvals.agents.a]\naks = \"off\"", `p.toml:3:1: unknown key "aks" in [approvals.agents.a] (did you mean "ask"?)`},
		{"[tools]\nBash = {}\nbash = {}", `p.toml:4:8: "bash" and "Bash" (p.toml:3:8) are one tool: names are compared in lower case, with _ for - (make one table of both)`},
		{"[tools]\na = { aliases = [\"x\"] }\nb = { aliases = [\"X\"] }", `p.toml:4:18: alias "X" is also one of "a" (p.toml:3:18)`},
		{"[tools]\na = { aliases = [\"b\"] }\nb = { risk = \"low\" }", `p.toml:3:18: alias "b" has a table of its own (p.toml:4:5)`},
		{"[tools.x]\nschema = \"gone.json\"", `p.toml:3:10: can't read schema "gone.json": no such file (its name is relative to the policy's folder)`},
		{"[tools.x]\nschema = \"list.json\"", `p.toml:3:10: schema "list.json": the schema must be an object, not a list`},
		{"[tools.x]\nschema = \"large.json\"", `p.toml:3:10: schema "large.json" has more than 256 KiB`},
		{"[tools.x]\ncommand = [\"rg\", \"{patern}\"]\nschema = \"s.json\"", `p.toml:3:18: the schema has no property "patern" (did you mean "pattern"?)`},
		{"[tools.\"x*\"]\naliases = [\"y\"]", `p.toml:3:12: "x*" is no name of a tool, so it can't have aliases (give the aliases to a tool's own table)`},
		{"[tools.x]\naliases = [\"y z\"]", `p.toml:3:12: alias "y z" is no name that a tool can have`},
		{"[access.commands.bash]\nenter = \"tool:Bsh\"\n[tools.Bash]\n", `p.toml:3:9: tool "Bsh" has no table (did you mean "Bash"?)`},
		{"[access.commands.bash]\nenter = \"Bash\"\n[tools.Bash]\n", `p.toml:3:9: enter "Bash" names no tool (write enter = "tool:NAME")`},
		{"[tools.\"mcp__q__*\".access.fs]\nvalue = []\nstrategy = \"replace\"", `p.toml:2:20: "mcp__q__*" is about a tool of an MCP server, so toolguard doesn't enforce its access (confine the server's process: [tools."server:NAME".access])`},
		{"[tools.\"MCP--q__y\".access]\ndefault = \"deny\"", `p.toml:2:1: "MCP--q__y" is about a tool of an MCP server, so toolguard doesn't enforce its access (confine the server's process: [tools."server:NAME".access])`},
		{"[groups]\nq = [\"read\", \"mcp__q__y\"]\n[tools.\"group:q\".access]\ndefault = \"deny\"", `p.toml:4:1: "group:q" is about a tool of an MCP server, so toolguard doesn't enforce its access (confine the server's process: [tools."server:NAME".access])`},
		{"[tools.x]\nsource = \"mcp\"\n[tools.\"group:all\".access]\ndefault = \"deny\"", `p.toml:4:1: "group:all" is also about "x", which has source "mcp" (p.toml:2:1), so toolguard doesn't enforce its access (confine the server's process instead, or set source = "local" if toolguard starts the tool)`},
		{"[tools.x]\nsource = \"mcp\"\nplugin = \"p\"\n[tools.\"group:p\".access]\ndefault = \"deny\"", `p.toml:5:1: "group:p" is also about "x", which has source "mcp" (p.toml:2:1), so toolguard doesn't enforce its access (confine the server's process instead, or set source = "local" if toolguard starts the tool)`},
		{"[access.commands.bash]\nenter = \"tool:Bash\"\n", `p.toml:3:9: tool "Bash" has no table (add [tools.NAME])`},
		{"[authorities.global.access.commands.bash]\nenter = \"tool:Bash\"\n", `p.toml:3:9: tool "Bash" has no table (add [tools.NAME])`},
		{"[tools.x]\nschema.properties.a = {}", `p.toml:3:1: schema is for the arguments of a local tool, and this tool has no command (add command = ["program", "{argument}"], or remove it)`},
		{"[profiles.p]\nprofile = \"coding\"", `p.toml:3:11: profile has no effect here: it's for stages of authorities, and for those that global and agents have for a provider`},
		{"[authorities.group.g.providers.openai]\nprofile = \"coding\"", `p.toml:3:11: profile has no effect here: it's for stages of authorities, and for those that global and agents have for a provider`},
		{"[authorities.global.providers.openai.providers.google]\ndeny = [\"x\"]", `p.toml:2:38: a provider's stage can't have providers of its own`},
		{"[authorities.global.providers.\"openai/m*\"]\ndeny = [\"x\"]", `p.toml:2:1: "openai/m*" is a pattern, and names of providers are compared whole (write PROVIDER or PROVIDER/MODEL)`},
		{"[groups]\nall = [\"x\"]", `p.toml:3:1: group "all" is built in, and no file can change it (choose another name)`},
		{"[groups]\nplugins = []", `p.toml:3:1: group "plugins" is built in, and no file can change it (choose another name)`},
		{"[tools.\"server:fs\"]\nowner_only = true\nconstraints.forbidden = true", `p.toml:4:1: constraints has no effect in the table of a server's process (write it in [tools."mcp__SERVER__*"], for the server's tools)` + "\n" +
			`p.toml:3:14: owner_only has no effect in the table of a server's process (write it in [tools."mcp__SERVER__*"], for the server's tools)`},
		{"environments = { dev = [] }", `p.toml:1:1: the policy has environments, and none is chosen (choose one: --environment dev, or environment = "…" in the file)`},
		{"environment = \"deb\"\nenvironments = { dev = [] }", `p.toml:2:15: unknown environment "deb" (did you mean "dev"?)`},
		{"environment = \"dev\"", `p.toml:2:15: unknown environment "dev" (add [environments] with its files)`},
	} {
		_, _, err := Load(request("p.toml"), tree{
			"/w/p.toml": "version = 1\n" + row.policy + "\n", "/w/s.json": `{"properties":{"pattern":{}}}`, "/w/list.json": "[1]",
			"/w/large.json": strings.Repeat(" ", 1<<20) + "{}",
		})
		if got := fmt.Sprint(err); got != row.want {
			t.Errorf("%q:\n got %s\nwant %s", row.policy, got, row.want)
		}
	}
}

// What is right loads: groups and plugins that need no definition, aliases, local tools with files as schemas.
func TestToolKeysLoad(t *testing.T) {
	load(t, request("p.toml"), tree{"/w/p.toml": `version = 1
environment = "dev"
environments = { dev = [], production = ["prod.toml"] }
[profiles.x]
allow = ["group:all", "group:plugins", "group:contacts", "group:clawdbot"]
on_unknown = "strip"
[authorities.global]
profile = "x"
also_allow = ["y"]
providers.openai = { deny = ["z"], on_unknown = "strip" }
[tools.lookup]
plugin = "contacts"
aliases = ["find_contact"]
[tools.search]
command = ["rg", "--", "{pattern*}", "data"]
schema = "search.json"
`, "/w/search.json": `{"type": "object", "properties": {"pattern": {"type": "array", "items": {"type": "string"}}}}`})
}

// The files of the chosen environment are later layers of the file that names them.
func TestEnvironments(t *testing.T) {
	files := tree{
		"/w/p.toml":        "version = 1\nenvironment = \"dev\"\nenvironments = { dev = [\"d/dev.toml\"], production = [\"d/prod.toml\"] }\n[limits]\npids = 1\n",
		"/w/d/dev.toml":    "version = 1\n[limits]\npids = 2\n",
		"/w/d/prod.toml":   "version = 1\n[limits]\npids = 3\n",
		"/w/plain.toml":    "version = 1\n",
		"/etc/h/host.toml": "version = 1\nenvironment = \"strict\"\nenvironments = { strict = [], production = [\"/w/gone.toml\"] }\n",
	}
	for environment, want := range map[string]uint64{"": 2, "dev": 2, "production": 3} {
		req := request("p.toml")
		req.Environment = environment
		req.HostDir = "/etc/h"
		if environment == "production" {
			req.HostDir = "" // it has its own choice, see below
		}
		if src := load(t, req, files); src.Limits.Pids.N != want {
			t.Errorf("%q: %d processes, want %d", environment, src.Limits.Pids.N, want)
		}
	}
	req := request("p.toml")
	req.Environment, req.HostDir = "production", "/etc/h"
	if src := load(t, req, files); src.Limits.Pids.N != 3 { // the host's file of that environment isn't there, and isn't read
		t.Errorf("%d processes", src.Limits.Pids.N)
	}
	for _, name := range []string{"plain.toml", "p.toml"} {
		req := request(name)
		req.Environment = "staging"
		if _, _, err := Load(req, files); err == nil || !strings.Contains(err.Error(), `environment "staging"`) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The files of one author are one: what has to fit together may be in several, and a mistake, too.
func TestToolMistakesOfFiles(t *testing.T) {
	const global, search = "version = 1\n[authorities.global]\n", "version = 1\n[tools.search]\n"
	for _, row := range []struct{ a, b, want string }{
		{global + "profile = \"coding\"\nalso_allow = [\"y\"]\n", global + "allow = [\"x\"]\n", `a.toml:4:1: also_allow adds to a profile's list, and this stage has its own: allow (b.toml:3:1) (add the tools to allow, or write also_allow = { strategy = "replace", value = [] } in the later file)`},
		{global + "allow = [\"x\"]\n", global + "profile = \"coding\"\nalso_allow = [\"y\"]\n", `b.toml:4:1: also_allow adds to a profile's list, and this stage has its own: allow (a.toml:3:1) (add the tools to allow, or write also_allow = { strategy = "replace", value = [] } in the later file)`},
		{global + "profile = \"coding\"\nalso_allow = [\"y\"]\n", global + "allow = [\"x\"]\nalso_allow = { strategy = \"replace\", value = [] }\n", "<nil>"},
		{global + "profile = \"coding\"\n", global + "also_allow = [\"y\"]\n", "<nil>"},
		{search + "command = [\"rg\", \"{q}\"]\n", search + "schema.properties.p = {}\n", `a.toml:3:18: the schema has no property "q" (did you mean "p"?)`},
		{"version = 1\n[tools.a]\naliases = [\"x\"]\n", "version = 1\n[tools.b]\naliases = [\"x\"]\n", `b.toml:3:12: alias "x" is also one of "a" (a.toml:3:12)`},
		{"version = 1\n[tools.Bash]\nrisk = \"low\"\n", "version = 1\n[tools.bash]\nrisk = \"high\"\n", "<nil>"},
	} {
		_, _, err := Load(request("a.toml", "b.toml"), tree{"/w/a.toml": row.a, "/w/b.toml": row.b})
		if got := fmt.Sprint(err); got != row.want {
			t.Errorf("%q, %q:\n got %s\nwant %s", row.a, row.b, got, row.want)
		}
	}
	req := request("a.toml")
	req.HostDir = "/h"
	files := tree{"/w/a.toml": "version = 1\n[tools.a]\naliases = [\"x\"]\n", "/h/h.toml": "version = 1\n[tools.b]\naliases = [\"x\"]\nschema = \"untrusted.json\"\n", "/h/untrusted.json": "{}"}
	want := `/h/h.toml:4:10: can't read schema "untrusted.json": /h/untrusted.json is writable by users other than root (mode 0666) (its name is relative to the policy's folder)`
	if _, _, err := Load(req, files); fmt.Sprint(err) != want {
		t.Errorf("two authors: %v", err)
	}
}
