package policyfile

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/policy"
	"github.com/toolguard/toolguard/internal/policy/tomltree"
)

// mistakes are policies with their errors. `version = 1` is added as a first line where it's missing.
var mistakes = []struct{ policy, want string }{
	// TOML itself.
	{`nonsense`, `p.toml:2:1: not valid TOML: expected = after a key, but the document ends there`},
	{`name = "a`, `p.toml:2:10: not valid TOML: basic string not terminated by "`},
	{"name = \"a\"\nname = \"b\"", `p.toml:3:1: key "name" is given twice`},
	{"[access]\n[access]", `p.toml:3:2: table "access" is defined twice`},
	{"[access]\nfs = []\n[[access.fs]]\npath = \".\"", `p.toml:4:10: key "fs" is already defined as a list, so it can't be a list of tables too`},
	{"[limits]\npids = 0x", `p.toml:3:9: not valid TOML: expected newline but got U+0078 'x'`},
	{"[limits]\npids = 1__0", `p.toml:3:8: "1__0" isn't a number`},
	{"[limits]\npids = 99999999999999999999", `p.toml:3:8: number 99999999999999999999 is out of range`},
	{"[access.commands]\n" + commands(30) + "k29 = {}", `p.toml:33:1: key "k29" is given twice`},
	{"name = \"a\x00b\"", `p.toml:2:10: a NUL byte (a policy is a text file)`},
	{"name = \"ä\xff\"", `p.toml:2:10: not UTF-8 (save the file as UTF-8)`},
	{`name = ` + strings.Repeat("[", 100000), `p.toml:2:32: brackets nested deeper than 24`},
	{`name` + strings.Repeat(".a", 100000) + ` = 1`, `p.toml:2:52: a key of more than 24 parts`},
	{strings.Repeat("# nonsense\n", 1000000), `p.toml:1:1: the file is larger than 1024 KiB (is it really a policy?)`},

	// Keys.
	{"acess = 1", `p.toml:2:1: unknown key "acess" at the top level (did you mean "access"?)`},
	{"[[access.fs]]\npath = \".\"\nRead = true", `p.toml:4:1: unknown key "Read" in [access.fs] (case matters: it is read)`},
	{"[[access.fs]]\npath = \".\"\nraed = true", `p.toml:4:1: unknown key "raed" in [access.fs] (did you mean "read"?)`},
	{"[[access.env]]\nname = \"A\"\nvisible = true", `p.toml:4:1: unknown key "visible" in [access.env] (the keys here are name, read)`},
	{"[Access]", `p.toml:2:2: unknown key "Access" at the top level (case matters: it is access)`},
	{"[tools.\"fs_*\".acess]\nfs = []", `p.toml:2:15: unknown key "acess" in [tools."fs_*"] (did you mean "access"?)`},
	{"[authorities.host.access]", `p.toml:2:14: unknown key "host" in [authorities] (the keys here are profile, provider, global, agent, group, sandbox, subagent)`},
	{"[authorities.agent.acess]", `p.toml:2:20: unknown key "acess" in [authorities.agent] (did you mean "access"?)`},
	{"[authorities.agent]\ncoder = true", `p.toml:3:1: unknown key "coder" in [authorities.agent] (the keys here are allow, deny, also_allow, on_unknown, profile, providers, max_depth, access, limits)`},

	{"[access]\ncap = 1", `p.toml:3:1: unknown key "cap" in [access] (did you mean "capabilities"?)`},
	{"[[access.env]]\nname = \"A\"\nraedab = true", `p.toml:4:1: unknown key "raedab" in [access.env] (the keys here are name, read)`},
	{"[access.commands.AZaz09_-]\nx = 1", `p.toml:3:1: unknown key "x" in [access.commands.AZaz09_-] (the keys here are args, envs, enter, match, not_match)`},
	{"[access.commands." + long + "]\n" + long + "k = 1", `p.toml:3:1: unknown key "` + long + `…" in [access.commands.` + long + `] (the keys here are args, envs, enter, match, not_match)`},
	{"[access.commands." + long + "k]\n" + long + " = 1", `p.toml:3:1: unknown key "` + long + `" in [access.commands."` + long + `…"] (the keys here are args, envs, enter, match, not_match)`},
	{"[access]\nnet = [{ alow = true }]", "p.toml:3:8: host is missing in [access.net] (for example host = \"api.example.com\")\np.toml:3:10: unknown key \"alow\" in [access.net] (did you mean \"allow\"?)"},

	// Types.
	{"[[access.fs]]\npath = \".\"\nread = \"true\"", `p.toml:4:8: read must be true or false, not the string "true" (leave the quotes out)`},
	{"[[access.fs]]\npath = \".\"\nread = \"false\"", `p.toml:4:8: read must be true or false, not the string "false" (leave the quotes out)`},
	{"[[access.fs]]\npath = \".\"\nread = \"yes\"", `p.toml:4:8: read must be true or false, not the string "yes"`},
	{"[[access.fs]]\npath = \".\"\nread = 1", `p.toml:4:8: read must be true or false, not the number 1`},
	{"[[access.fs]]\npath = [\".\"]", `p.toml:3:1: path must be a string, not a list`},
	{"[access.fs]\npath = \".\"", `p.toml:2:1: fs must be a list, not a table (write [[access.fs]] with two brackets)`},
	{"[access]\nfs = { path = \".\" }", `p.toml:3:6: fs must be a list, not a table`},
	{"[access]\nfs = \".\"", `p.toml:3:6: fs must be a list, not the string "." (write ["."])`},
	{"[access]\nfs = [1.5, 1979-05-27]", "p.toml:3:7: fs must be a table, not a fraction\np.toml:3:12: fs must be a table, not a date"},
	{"access = true", `p.toml:2:10: access must be a table, not true`},
	{"extends = \"preset:go\"", `p.toml:2:11: extends must be a list, not the string "preset:go" (write ["preset:go"])`},
	{"audit = \"execs\"", `p.toml:2:9: audit must be "denials" or "exec", not "execs" (did you mean "exec"?)`},
	{"audit = true", `p.toml:2:9: audit must be a string, not true`},
	{"extends = [1]", `p.toml:2:12: extends must be a string, not the number 1`},
	{"[limits]\npids = \"256\"", `p.toml:3:8: pids must be a number, not the string "256"`},
	{"[access.commands.git]\nargs = [[\"\\u0000\"]]", `p.toml:3:10: args contains a NUL character`},
	{"[access.commands.git]\nargs = [\"status\"]", `p.toml:3:9: args must be a list of words for each command line, not the string "status" (write [["status", "**"]])`},

	// Values.
	{"version = 2", `p.toml:1:11: version 2 is unknown (this toolguard reads version 1)`},
	{"name = \"\"", `p.toml:2:8: name is empty`},
	{"name = \"\\u0000\"", `p.toml:2:8: name contains a NUL character`},
	{"[access]\ndefault = \"Deny\"", `p.toml:3:11: default must be "deny" or "allow", not "Deny" (case matters: it is deny)`},
	{"[access]\ndefault = { fs = \"denied\" }", `p.toml:3:18: fs must be "deny" or "allow", not "denied"`},
	{"[access]\ndefault = true", `p.toml:3:11: default must be "deny", "allow" or a table, not true`},
	{"[access]\nprotect = \"aut\"", `p.toml:3:11: protect must be "auto", true or false, not the string "aut" (did you mean "auto"?)`},
	{"[access]\nprotect = \"true\"", `p.toml:3:11: protect must be "auto", true or false, not the string "true" (leave the quotes out)`},
	{"[access]\nsecrets = \"off\"", `p.toml:3:11: secrets must be "auto", true or false, not the string "off"`},
	{"[access]\nprotect = \"false\"", `p.toml:3:11: protect must be "auto", true or false, not the string "false" (leave the quotes out)`},
	{"[access]\nsyscalls = \"strickt\"", `p.toml:3:12: syscalls must be "default" or "strict", not "strickt" (did you mean "strict"?)`},
	{"[access]\ncapabilities = [\"CAP_NET_BIND\"]", `p.toml:3:17: unknown capability "CAP_NET_BIND" (did you mean "CAP_NET_BIND_SERVICE"?)`},
	{"[access]\ncapabilities = [\"all\"]", `p.toml:3:17: unknown capability "all" (write it as capabilities(7) does, for example CAP_NET_BIND_SERVICE)`},
	{"[access]\ncapabilities = [\"cap_chown\"]", `p.toml:3:17: unknown capability "cap_chown" (case matters: it is CAP_CHOWN)`},
	{"[access.fs]\nstrategy = \"apend\"\nvalue = []", `p.toml:3:12: strategy must be "append", "prepend", "replace" or "dedup", not "apend" (did you mean "append"?)`},
	{"[access.fs]\nstrategy = \"append\"", `p.toml:2:1: value is missing in [access.fs]`},
	{"[[access.fs]]\nread = true", `p.toml:2:1: neither path nor match in [access.fs] (write path = "." for the workspace)`},
	{"[[access.fs]]\npath = \".\"\nmatch = \"**/x\"", `p.toml:4:1: both path and match in [access.fs] (make two rules of it)`},
	{"[[access.fs]]\npath = \"~root/x\"", `p.toml:3:8: path "~root/x" names another user's home (for a file of that name write ./~root/x)`},
	{"[[access.net]]\nallow = true", `p.toml:2:1: host is missing in [access.net] (for example host = "api.example.com")`},
	{"[[access.net]]\nhost = \"a\"\nport = 70000", `p.toml:4:8: port must be a number from 1 to 65535, not 70000`},
	{"[[access.net]]\nhost = \"a\"\nprotocol = \"upd\"", `p.toml:4:12: protocol must be "tcp" or "udp", not "upd" (did you mean "udp"?)`},
	{"[[access.net]]\nhost = \"a\"\nscheme = \"HTTPS\"", `p.toml:4:10: scheme "HTTPS" isn't a scheme in lower case (write scheme = "https")`},
	{"[[access.net]]\nhost = \"a\"\nscheme = \"3d\"", `p.toml:4:10: scheme "3d" isn't a scheme in lower case (write scheme = "https")`},
	{"[[access.net]]\nhost = \"a\"\nscheme = \"a/\"", `p.toml:4:10: scheme "a/" isn't a scheme in lower case (write scheme = "https")`},
	{"[[access.net]]\nhost = \"a\"\nscheme = \"a:\"", `p.toml:4:10: scheme "a:" isn't a scheme in lower case (write scheme = "https")`},
	{"[[access.net]]\nhost = \"a\"\npath_prefix = \"v1\"", `p.toml:4:15: path_prefix "v1" doesn't begin with /`},
	{"[[access.net]]\nhost = \"a\"\nlisten = true", `p.toml:4:1: listen without a port in [access.net] (add port = …, or write host = "localhost" for servers of the session's own on any port)`},
	{"[[access.net]]\nhost = \"localhost\"\nprotocol = \"udp\"\nlisten = true", `p.toml:5:1: listen without a port in [access.net] (add port = …: over udp the session's own servers can't be distinguished from other ones)`},
	{"[[access.net]]\nhost = \"a\"\nmethods = [\"GET\", \"post\"]", `p.toml:4:19: "post" isn't an HTTP method (methods are in upper case, for example GET)`},
	{"[[access.env]]\nname = \"AWS_*_KEY\"", `p.toml:3:8: name "AWS_*_KEY" has a * that isn't at its end (only one * is allowed, as the last character)`},
	{"[[access.env]]\nname = \"A**\"", `p.toml:3:8: name "A**" has a * that isn't at its end (only one * is allowed, as the last character)`},
	{"[[access.env]]\nname = \"A=b\"", `p.toml:3:8: name "A=b" can't be the name of a variable (a name contains neither = nor blanks)`},
	// Paths and names that are probably not intended.
	{"[[access.fs]]\npath = \"$HOME/.ssh\"", `p.toml:3:8: "$HOME/.ssh" has a variable in it, $HOME, and variables aren't expanded (the home is ~/: write "~/.ssh"; for a file of that name add literal = true)`},
	{"[[access.fs]]\nmatch = \"${HOME}/**/.env\"", `p.toml:3:9: "${HOME}/**/.env" has a variable in it, ${HOME}, and variables aren't expanded (the home is ~/: write "~/**/.env"; for a file of that name add literal = true)`},
	{"[[access.fs]]\npath = \"file:///srv\"\nread = true", `p.toml:3:8: "file:///srv" is a URL, and not a path (write "/srv"; for a file of that name add literal = true)`},
	{"[[access.fs]]\npath = \"src \"\nread = true", `p.toml:3:8: "src " begins or ends with a blank (write "src"; for a file of that name add literal = true)`},
	{"[[access.fs]]\npath = \"*.pem\"\nread = false", `p.toml:3:8: path "*.pem" is literal, so its wildcard denies nothing (a pattern goes into match: match = "**/*.pem"; for a file of that name add literal = true)`},
	{"[[access.env]]\nname = \"$HOME\"", `p.toml:3:8: name "$HOME" can't be the name of a variable (write the name alone, such as HOME; a * is allowed at its end)`},
	{"[access.commands.\"git status -s\"]", `p.toml:2:18: program "git status -s" matches nothing: arguments aren't part of a name (write [access.commands.git] with args = [["status", "-s", "**"]])`},
	{"[access.commands.\"/usr/bin/*\"]", `p.toml:2:18: program "/usr/bin/*" matches nothing: a name is no pattern (write a table for each program, or default = { commands = "allow" } for any)`},
	{"[access.commands.\"*\"]", `p.toml:2:18: program "*" matches nothing: a name is no pattern (write a table for each program, or default = { commands = "allow" } for any)`},
	{"[access.commands.\"$EDITOR\"]", `p.toml:2:18: program "$EDITOR" has a variable in it, and variables aren't expanded (write its name alone, or its absolute path)`},
	{"[access.commands.\"git \"]", `p.toml:2:18: program "git " begins or ends with a blank (write "git")`},
	{"[access.commands.\"~/bin/x\"]", `p.toml:2:18: program "~/bin/x" can't be found by ~ (write its name alone, or its absolute path)`},
	{"[access.commands.\"bin/git\"]", `p.toml:2:18: program "bin/git" is a relative path (write its name alone, or its absolute path)`},
	{"[access.commands.git]\nargs = [[\"**\", \"x\"]]", `p.toml:3:1: "**" in the middle of args in [access.commands.git] (only the last element may be "**")`},
	{"[access.commands.git]\nnot_match = [[]]", `p.toml:3:1: an empty self-test in [access.commands.git] (write the whole command line, the program's name first)`},
	{"[access.commands.git]\nenvs = [\"A*B\"]", `p.toml:3:9: name "A*B" has a * that isn't at its end (only one * is allowed, as the last character)`},
	{"[limits]\nmemory = \"1G\"", `p.toml:3:10: memory must be a size, not "1G" (the units are B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024))`},
	{"[limits]\nmemory = \"much\"", `p.toml:3:10: memory must be a size, not "much" (write it as "512MiB" or "1.5GiB")`},
	{"[limits]\nmemory = \"99999999999GiB\"", `p.toml:3:10: memory must be a size, not "99999999999GiB" (it's too large, or not a number)`},
	{"[limits]\nmemory = -1", `p.toml:3:10: memory must be greater than zero (leave the key out for no limit)`},
	{"[limits]\ncpu = 150", `p.toml:3:7: cpu must be a share of one processor, not the number 150 (write it as "150%")`},
	{"[limits]\ncpu = \"150\"", `p.toml:3:7: cpu must be a share of one processor, not the string "150" (write it as "150%")`},
	{"[limits]\ncpu = \"x%\"", `p.toml:3:7: cpu must be a share of one processor, not the string "x%" (write it as "150%")`},
	{"[limits]\nwall_time = \"10 minutes\"", `p.toml:3:13: wall_time must be a duration, not the string "10 minutes" (write it as "90s", "10m" or "1h30m")`},
	{"[limits]\nwall_time = \"-1s\"", `p.toml:3:13: wall_time must be greater than zero (leave the key out for no limit)`},

	// The tool layer.
	{"[tools.x]\nsource = \"mpc\"", `p.toml:3:10: source must be "local", "mcp" or "builtin", not "mpc" (did you mean "mcp"?)`},
	{"[tools.x]\nsource = \"mcp\"\n[[tools.x.access.fs]]\npath = \".\"", `p.toml:4:11: tool "x" has source "mcp" (p.toml:2:1), so toolguard doesn't enforce its access (confine the server's process instead, or set source = "local" if toolguard starts the tool)`},
	{"[tools.x.constraints]\nmax_invocations = 0", `p.toml:3:19: max_invocations must be a number from 1 to 1000000000, not 0`},
	{"[approvals]\nask = \"sometimes\"", `p.toml:3:7: ask must be "off", "on-miss" or "always", not "sometimes"`},
	{"[[hooks.before_tool_call]]\ntimeout = \"5s\"", `p.toml:2:1: neither command nor url in [hooks.before_tool_call] (write command = ["program"] or url = "http://…")`},
	{"[[hooks.before_tool_call]]\nurl = \"http://u:p@x/\"", `p.toml:3:7: url "http://u:p@x/" isn't an http or https address without a password`},

	{"[[hooks.before_tool_call]]\nurl = \"ftp://x/\"", `p.toml:3:7: url "ftp://x/" isn't an http or https address without a password`},
	{"[[hooks.before_tool_call]]\nurl = \"http:/x\"", `p.toml:3:7: url "http:/x" isn't an http or https address without a password`},
	{"[[hooks.before_tool_call]]\nurl = \"http://[\"", `p.toml:3:7: url "http://[" isn't an http or https address without a password`},

	{"[[tools.\"group:fss\".access.fs]]\npath = \".\"", `p.toml:2:9: unknown group "fss" (did you mean "fs"?)`},
	{"[groups]\na = [\"group:b\", \"group:zzzzzz\"]\nb = [\"x\"]", `p.toml:3:17: unknown group "zzzzzz" (there are a, all, automation, b, clawdbot, fs, memory, messaging, plugins, runtime, sessions, ui, web)`},
	{"[authorities.agent.coder.providers.x]\nprofile = \"codign\"", `p.toml:3:11: unknown profile "codign" (did you mean "coding"?)`},
	{"[profiles.mine]\nallow = [\"group:nope\"]", `p.toml:3:10: unknown group "nope" (there are all, automation, clawdbot, fs, memory, messaging, plugins, runtime, sessions, ui, web)`},

	// Other files.
	{"extends = [\"preset:pyton\"]", `p.toml:2:12: unknown preset "pyton" (did you mean "python"?)`},
	{"extends = [\"python.toml\"]", `p.toml:2:12: can't read policy "python.toml": no such file (the built-in one is preset:python)`},
	{"extends = [\"p.toml\"]", `p.toml:2:12: a cycle of extends: p.toml -> p.toml (remove one of them from extends)`},
	{"extends = [\"sub/loop.toml\"]", `sub/loop.toml:2:12: a cycle of extends: p.toml -> sub/loop.toml -> p.toml (remove one of them from extends)`},
	{"extends = [\"sub/bad.toml\"]", `sub/bad.toml:2:1: unknown key "nmae" at the top level (did you mean "name"?)`},
}

var long = strings.Repeat("k", 60)

// commands are n programs, k0 and so on.
func commands(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "k%d = {}\n", i)
	}
	return b.String()
}

// Policies at the limits are accepted.
func TestAccepted(t *testing.T) {
	for _, body := range []string{
		"[[access.net]]\nhost = \"a\"\nscheme = \"az+-.09\"\nport = 65535", "[[hooks.after_tool_call]]\nurl = \"https://x/\"", "[access.commands]\n" + commands(30),
		"# " + strings.Repeat("x", tomltree.MaxSize-len("version = 1\n# ")),
	} {
		if _, errs := decodePolicy("p.toml", []byte("version = 1\n"+body)); errs != nil {
			t.Errorf("%.80q: %v", body, errs)
		}
	}
}

// otherFiles are in the folder of the policies above.
var otherFiles = tree{
	"/w/sub/loop.toml": "version = 1\nextends = [\"../p.toml\"]",
	"/w/sub/bad.toml":  "version = 1\nnmae = \"x\"",
}

func TestMistakes(t *testing.T) {
	for _, m := range mistakes {
		text := m.policy
		if !strings.HasPrefix(text, "version") {
			text = "version = 1\n" + text
		}
		files := tree{"/w/p.toml": text}
		for path, s := range otherFiles {
			files[path] = s
		}
		_, _, err := Load(request("p.toml"), files)
		if err == nil {
			t.Errorf("no error for %.80q, want %s", m.policy, m.want)
		} else if err.Error() != m.want {
			t.Errorf("%.80q:\n got %s\nwant %s", m.policy, err, m.want)
		}
		if _, ok := errors.AsType[policy.Errors](err); !ok {
			t.Errorf("%.80q: the error is a %T", m.policy, err)
		}
	}
}

func TestMissingPolicy(t *testing.T) {
	for name, want := range map[string]string{
		"gone.toml": `gone.toml: can't read policy "gone.toml": no such file`,
		"":          `--policy: the name of the policy is empty`,
		"preset:":   `preset:: unknown preset "" (there are readonly, python, node, go, rust, java, c, git, pty, dns, claude-code, codex, gemini, cursor-agent, opencode, aider)`,
	} {
		if _, _, err := Load(request(name), tree{}); err == nil || err.Error() != want {
			t.Errorf("%q: got %v, want %s", name, err, want)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	text := "vresion = 1\nname = 1\n[[access.fs]]\nread = 2\n[limits]\npids = 0\n"
	_, _, err := Load(request("p.toml"), tree{"/w/p.toml": text})
	want := `p.toml:1:1: unknown key "vresion" at the top level (did you mean "version"?)
p.toml:1:1: version is missing at the top level (for example version = 1)
p.toml:2:8: name must be a string, not the number 1
p.toml:4:8: read must be true or false, not the number 2
p.toml:6:8: pids must be greater than zero (leave the key out for no limit)`
	if err == nil || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
	// Also those that are seen when a table has no other.
	many := strings.Repeat("[[access.fs]]\nx = 1\n", 250) + strings.Repeat("[[access.fs]]\nread = true\n", 250)
	_, _, err = Load(request("p.toml"), tree{"/w/p.toml": "version = 1\n" + many})
	if n := strings.Count(err.Error(), "\n"); n != maxErrors || !strings.HasSuffix(err.Error(), "and 480 more mistakes") {
		t.Errorf("%d lines: %s", n, err)
	}
}
