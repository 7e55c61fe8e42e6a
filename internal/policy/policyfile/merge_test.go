package policyfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolguard/toolguard/internal/policy"
)

// rules lists the rules of a layer that aren't built in on one line, for comparing: "fs . read|env A".
func rules(l *policy.SourceLayer) string {
	own := *l
	own.FS = slices.DeleteFunc(slices.Clone(l.FS), func(r policy.FSRule) bool { return r.Position.File == "builtin:default" })
	own.Env = slices.DeleteFunc(slices.Clone(l.Env), func(r policy.EnvRule) bool { return r.Position.File == "builtin:default" })
	return allRules(&own)
}

// allRules is rules with those of the built-in default policy.
func allRules(l *policy.SourceLayer) string {
	var out []string
	for _, r := range l.FS {
		if r.Path+r.Match != "" { // else it's of a repository that there isn't
			out = append(out, fmt.Sprintf("fs %s%s %s", r.Path, r.Match, r.Caps))
		}
	}
	for _, r := range l.Net {
		out = append(out, fmt.Sprintf("net %s %v", r.Host, r.Allow))
	}
	for _, r := range l.Env {
		out = append(out, fmt.Sprintf("env %s %v", r.Name, r.Read))
	}
	for _, r := range l.Commands {
		out = append(out, fmt.Sprintf("command %s %q", r.Name, r.Args))
	}
	return strings.Join(out, " | ")
}

// policyText is a policy with a body.
func policyText(body string) string { return "version = 1\n" + body }

const (
	fsA  = "[[access.fs]]\npath = \"a\"\nread = true\n"
	fsB  = "[[access.fs]]\npath = \"b\"\nread = true\n"
	envA = "[[access.env]]\nname = \"A\"\nread = true\n"
)

func TestMerge(t *testing.T) {
	strategy := func(s, list string) string { return "[access.fs]\nstrategy = \"" + s + "\"\nvalue = [" + list + "]\n" }
	git := func(args string) string { return "[access.commands.git]\nargs = " + args + "\n" }
	for name, c := range map[string]struct{ base, more, want string }{
		"lists append":            {fsA, fsB, "fs a read | fs b read"},
		"append by name":          {fsA, strategy("append", `{ path = "b" }`), "fs a read | fs b none"},
		"prepend":                 {fsA, strategy("prepend", `{ path = "b" }, { path = "c" }`), "fs b none | fs c none | fs a read"},
		"replace":                 {fsA + envA, strategy("replace", `{ path = "b" }`), "fs b none | env A true"},
		"replace with nothing":    {fsA + envA, strategy("replace", ""), "env A true"},
		"dedup":                   {fsA, strategy("dedup", `{ path = "b" }, { path = "a", read = true }, { path = "b" }`), "fs a read | fs b none"},
		"dedup of variables":      {envA, "[access.env]\nstrategy = \"dedup\"\nvalue = [{ name = \"A\" }, { name = \"A\", read = true }, { name = \"B\", read = true }]\n", "env A true | env A false | env B true"},
		"dedup keeps what's else": {fsA, strategy("dedup", `{ path = "a" }`), "fs a read | fs a none"},
		"other resources":         {fsA, envA, "fs a read | env A true"},
		"no access":               {fsA, "", "fs a read"},
		"a program's args append": {git(`[["a"]]`), git(`[["b"]]`), `command git [["a"] ["b"]]`},
		"replace a program's args": {
			git(`[["a"]]`), git(`{ strategy = "replace", value = [["b"]] }`),
			`command git [["b"]]`,
		},
		"programs stay separate": {git(`[["a"]]`), "[access.commands.ls]\n", `command git [["a"]] | command ls []`},
		"replace all programs": {
			git(`[["a"]]`), "[access.commands]\nstrategy = \"replace\"\n[access.commands.value.ls]\n",
			`command ls []`,
		},
		"a program named strategy": {git(`[["a"]]`), "[access.commands.strategy]\n", `command git [["a"]] | command strategy []`},
	} {
		files := tree{
			"/w/base.toml": policyText(c.base), "/w/p.toml": "version = 1\nextends = [\"base.toml\"]\n" + c.more,
			"/w/more.toml": policyText(c.more),
		}
		if got := rules(layerOf(t, load(t, request("p.toml"), files), policy.Session)); got != c.want {
			t.Errorf("%s by extends:\n got %s\nwant %s", name, got, c.want)
		}
		if got := rules(layerOf(t, load(t, request("base.toml", "more.toml"), files), policy.Session)); got != c.want {
			t.Errorf("%s by repeated policies:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestMergeScalars(t *testing.T) {
	src := load(t, request("p.toml"), tree{
		"/w/base.toml": policyText("[access]\ndefault = \"allow\"\nruntime = false\nprotect = true\nsecrets = true\nnamespaces = true\nsyscalls = \"strict\"\n" +
			"allow_degraded = [\"fs.1\"]\n[access.commands.git]\nargs = []\nenvs = []\n[limits]\npids = 5\nmemory = 10\ncpu = \"20%\"\nio = 30\nwall_time = \"40s\"\nopen_files = 50\nfile_size = 60\n"),
		"/w/p.toml": "version = 1\nextends = [\"base.toml\"]\n[access]\ndefault = { net = \"deny\" }\nprotect = false\nsecrets = false\nsyscalls = { deny = { strategy = \"dedup\", value = [\"acct\", \"acct\", \"mount\"] } }\n" +
			"allow_degraded = { strategy = \"dedup\", value = [\"fs.1\", \"fs.2\"] }\n[access.commands.git]\n[limits]\npids = 50\n",
	})
	l := layerOf(t, src, policy.Session)
	if l.Defaults != [...]policy.DefaultAction{policy.Allow, policy.Deny, policy.Allow, policy.Allow} {
		t.Errorf("defaults: %v", l.Defaults)
	}
	if l.Runtime != nil || l.Protect != policy.ProtectOff || l.Protected != nil || l.Secrets != policy.ProtectOff || l.SecretFiles != nil || !l.Namespaces {
		t.Errorf("switches: %+v", l)
	}
	if l.Syscalls.Profile != "strict" || !slices.Equal(l.Syscalls.Deny, []string{"acct", "mount"}) || len(l.Degraded) != 2 || l.Degraded[1].ID != "fs.2" {
		t.Errorf("syscalls: %+v, degraded: %+v", l.Syscalls, l.Degraded)
	}
	if c := l.Commands[0]; !c.HasArgs || !c.HasEnvs {
		t.Errorf("commands: %+v", l.Commands)
	}
	if m := src.Limits; m.Pids.N != 50 || m.Memory.N != 10 || m.CPU.N != 20 || m.IO.N != 30 || m.WallTime.D != 40*time.Second || m.OpenFiles.N != 50 || m.FileSize.N != 60 {
		t.Errorf("limits: %+v", m)
	}
}

// The recorded events are those that any file asks for, in any order.
func TestAuditOfAny(t *testing.T) {
	for _, x := range []struct {
		host, base, own string
		at              string // "": no file asks
	}{
		{"", "", "", ""},
		{"denials", "denials", "denials", ""},
		{"exec", "", "denials", "/etc/toolguard/policies/h.toml:2:9"},
		{"denials", "exec", "denials", "/w/base.toml:2:9"},
		{"", "", "exec", "p.toml:2:9"},
	} {
		text := func(word string) string {
			if word == "" {
				return policyText("")
			}
			return policyText("audit = \"" + word + "\"\n")
		}
		files := tree{"/etc/toolguard/policies/h.toml": text(x.host), "/w/base.toml": text(x.base), "/w/p.toml": text(x.own)}
		req := request("/w/base.toml", "p.toml")
		req.HostDir = "/etc/toolguard/policies"
		src := load(t, req, files)
		if got := src.Audit; got.Exec != (x.at != "") || got.Position.String() != x.at {
			t.Errorf("%+v: %+v", x, got)
		}
	}
}

// Each resource that the session's files don't declare is that of the built-in default policy.
func TestUndeclared(t *testing.T) {
	ofDefault := layerOf(t, load(t, request(), tree{}), policy.Session)
	fs, env := allRules(&policy.SourceLayer{FS: ofDefault.FS}), allRules(&policy.SourceLayer{Env: ofDefault.Env})
	if !strings.Contains(fs, "fs . read+create+update+delete+execute | ") || !strings.Contains(env, "env PATH true | ") {
		t.Fatal(fs, env)
	}
	base := [...]policy.DefaultAction{policy.FS: policy.Undeclared, policy.Net: policy.Deny, policy.Env: policy.Undeclared, policy.Commands: policy.Allow}
	with := func(r policy.Resource, s policy.DefaultAction) [policy.NumResources]policy.DefaultAction {
		d := base
		d[r] = s
		return d
	}
	const toolNet = "[[tools.fetch.access.net]]\nhost = \"a.com\"\nallow = true\n"
	for _, c := range []struct {
		what, tool, body, want string
		defaults               [policy.NumResources]policy.DefaultAction
	}{
		{"no policy", "", "-", fs + " | " + env, base},
		{"no [access]", "", "[limits]\npids = 3\n", fs + " | " + env, base},
		{"an empty [access]", "", "[access]\n", fs + " | " + env, base},
		{"another tool's access", "", "[[tools.other.access.env]]\nname = \"X\"\n", fs + " | " + env, base},
		{"a file rule", "", fsA, "fs a read | " + env, base},
		{"a variable", "", envA, fs + " | env A true", base},
		{"a host", "", "[[access.net]]\nhost = \"a.com\"\nallow = true\n", fs + " | net a.com true | " + env, with(policy.Net, policy.Undeclared)},
		{"a program", "", "[access.commands.git]\n", fs + " | " + env + " | command git []", with(policy.Commands, policy.Undeclared)},
		{"a default for net", "", "[access]\ndefault = { net = \"deny\" }\n", fs + " | " + env, base},
		{"a default for fs", "", "[access]\ndefault = { fs = \"allow\" }\n", env, with(policy.FS, policy.Allow)},
		{"a default for all", "", "[access]\ndefault = \"allow\"\n", "", [...]policy.DefaultAction{policy.Allow, policy.Allow, policy.Allow, policy.Allow}},
		{"an empty list", "", "[access]\nfs = []\n", fs + " | " + env, base},
		{"what no other authority declares", "", "[[authorities.agent.access.net]]\nhost = \"a.com\"\nallow = true\n" + fsA, "fs a read | " + env, base},
		{"a tool without access", "other", toolNet, fs + " | " + env, base},
		{"a tool's host", "fetch", toolNet, fs + " | net a.com true | " + env, with(policy.Net, policy.Undeclared)},
		{"a tool's host with a file rule", "fetch", toolNet + fsA, "fs a read | net a.com true | " + env, with(policy.Net, policy.Undeclared)},
		{"a tool's file rule", "fetch", "[[tools.fetch.access.fs]]\npath = \"b\"\nread = true\n", "fs b read | " + env, base},
		{"a tool's file rule with others", "fetch", "[[tools.fetch.access.fs]]\npath = \"b\"\n" + fsA, "fs a read | fs b none | " + env, base},
	} {
		req, files := request("p.toml"), tree{"/w/p.toml": policyText(c.body)}
		if c.body == "-" {
			req, files = request(), tree{}
		}
		req.Tool = c.tool
		l := layerOf(t, load(t, req, files), policy.Session)
		if got := allRules(l); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.what, got, c.want)
		}
		if l.Defaults != c.defaults || l.Protect != policy.ProtectAuto || len(l.Runtime) == 0 {
			t.Errorf("%s: %+v", c.what, l.Defaults)
		}
	}
}

func TestDiamondIsReadOnce(t *testing.T) {
	src := load(t, request("p.toml"), tree{
		"/w/base.toml": policyText(fsA),
		"/w/x.toml":    "version = 1\nextends = [\"base.toml\", \"preset:git\"]\n",
		"/w/y.toml":    "version = 1\nextends = [\"./base.toml\", \"preset:git\"]\n" + fsB,
		"/w/p.toml":    "version = 1\nextends = [\"x.toml\", \"y.toml\"]\n[access.env]\nstrategy = \"replace\"\nvalue = []\n",
	})
	n := 0
	for _, r := range layerOf(t, src, policy.Session).FS {
		if r.Path == "a" {
			n++
		}
	}
	if n != 1 || strings.Join(src.Files, " ") != "/w/base.toml /w/x.toml /w/y.toml /w/p.toml" {
		t.Errorf("%d times; %v", n, src.Files)
	}
}

func TestDepthOfExtends(t *testing.T) {
	files := tree{}
	for i := range 40 {
		files[fmt.Sprintf("/w/%d.toml", i)] = fmt.Sprintf("version = 1\nextends = [\"%d.toml\"]\n", i+1)
	}
	_, _, err := Load(request("0.toml"), files)
	if err == nil || err.Error() != "16.toml:2:12: extends goes through more than 16 files" {
		t.Error(err)
	}
	flat := "version = 1\nextends = ["
	for i := range maxFiles - 1 {
		name := fmt.Sprintf("f%d.toml", i)
		files["/w/"+name] = policyText("")
		flat += fmt.Sprintf("%q, ", name)
	}
	files["/w/p.toml"] = flat + "]"
	load(t, request("p.toml"), files)
	if _, _, err := Load(request("39.toml", "p.toml"), files); err == nil || !strings.Contains(err.Error(), "more than 200 policy files") {
		t.Error(err)
	}
}

func TestAuthorities(t *testing.T) {
	const p = `
[authorities.global]
limits = { file_size = 1000 }
[[authorities.global.access.fs]]
path = "global"
[authorities.agent.access]
default = { net = "deny" }
[[authorities.agent.coder.access.fs]]
path = "coder"
[[authorities.agent.writer.access.fs]]
path = "writer"
[[authorities.subagent.access.fs]]
path = "sub"
[[profiles.careful.access.fs]]
path = "careful"
[profiles.careful.limits]
pids = 7
[[authorities.global.providers.openai.access.fs]]
path = "openai"
[[authorities.global.providers."OpenAI/gpt-5".access.fs]]
path = "gpt-5"
[[authorities.provider.Azure.access.fs]]
path = "azure"
[[authorities.group."*".access.fs]]
path = "anygroup"
[[authorities.group.family.access.fs]]
path = "family"
[authorities.agent.wary]
profile = "careful"
access.fs = [{ path = "wary" }]
`
	files := tree{"/w/p.toml": policyText(p + fsA), "/h/10.toml": policyText(fsB + "[limits]\npids = 9\nwall_time = \"1m\"\n[authorities.global.limits]\nfile_size = 1000\n"), "/h/README": "x", "/h/.x.toml": "x"}
	layers := func(change func(*Request)) string {
		req := request("p.toml")
		req.HostDir = "/h"
		change(&req)
		var out []string
		for _, l := range load(t, req, files).Layers {
			out = append(out, l.Authority.String()+": "+rules(&l))
		}
		return strings.Join(out, "; ")
	}
	for want, change := range map[string]func(*Request){
		"host: fs b read; global: fs global none; agent: ; session: fs a read":                                       func(*Request) {},
		"host: fs b read; global: fs global none; agent: fs coder none; session: fs a read":                          func(r *Request) { r.Agent = "coder" },
		"host: fs b read; profile: fs careful none; global: fs global none; agent: ; session: fs a read":             func(r *Request) { r.Profile = "careful" },
		"host: fs b read; global: fs global none | fs openai none; agent: ; session: fs a read":                      func(r *Request) { r.Provider = "openai" },
		"host: fs b read; global: fs global none | fs gpt-5 none; agent: ; session: fs a read":                       func(r *Request) { r.Provider = "openai/gpt-5" },
		"host: fs b read; global: fs global none | fs openai none; agent: ; session: fs a read ":                     func(r *Request) { r.Provider = "openai/gpt-4" },
		"host: fs b read; provider: fs azure none; global: fs global none; agent: ; session: fs a read":              func(r *Request) { r.Provider = "azurE" },
		"host: fs b read; profile: fs careful none; global: fs global none; agent: fs wary none; session: fs a read": func(r *Request) { r.Agent = "wary" }, // which the policy gives the profile
		"host: fs b read; global: fs global none; agent: ; group: fs family none; session: fs a read":                func(r *Request) { r.Group = "family" },
		"host: fs b read; global: fs global none; agent: ; group: fs anygroup none; session: fs a read":              func(r *Request) { r.Group = "work" },
		"host: fs b read; global: fs global none; agent: ; subagent: fs sub none; session: fs a read":                func(r *Request) { r.Depth = 1 },
	} {
		if got := layers(change); got != strings.TrimSuffix(want, " ") {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}

	req := request("p.toml")
	req.HostDir, req.Profile, req.Limits = "/h", "careful", "pids=8,memory=1MiB"
	src := load(t, req, files)
	// Of the same limit in both, the host's is named.
	if at := src.Limits.FileSize.Position.File; at != "/h/10.toml" {
		t.Errorf("file_size is from %s", at)
	}
	if src.Limits.Pids.N != 7 || src.Limits.WallTime.D != time.Minute || src.Limits.Memory.N != 1<<20 {
		t.Errorf("limits: %+v", src.Limits)
	}
	if host := layerOf(t, src, policy.Host); host.Protect != policy.ProtectOff || len(host.Runtime) == 0 {
		t.Errorf("host: %+v", host)
	}
}

func TestLimitsOfTheCommandLine(t *testing.T) {
	for in, want := range map[string]string{
		"pids":             `--limits:1:1: "pids" has no value (write KEY=VALUE, separated by commas)`,
		"pids=1,pidz=2":    `--limits:1:8: unknown key "pidz" at the top level (did you mean "pids"?)`,
		"pids=1,pids=2":    `--limits:1:8: key "pids" is given twice`,
		"memory=1G":        `--limits:1:8: memory must be a size, not "1G" (the units are B, kB, MB, GB, TB (powers of 1000) and KiB, MiB, GiB, TiB (powers of 1024))`,
		"pids=0":           `--limits:1:6: pids must be greater than zero (leave the key out for no limit)`,
		"pids=1,,memory=1": `--limits:1:8: "" has no value (write KEY=VALUE, separated by commas)`,
	} {
		req := request()
		req.Limits = in
		if _, _, err := Load(req, tree{}); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
}

// The host's policy for an authority can't be merged with a session's for it, and a session can't have a policy of the host.
func TestHostIsSeparate(t *testing.T) {
	const global = "[[authorities.global.access.fs]]\npath = \".\"\nread = true\n"
	for name, c := range map[string]struct{ host, session, want string }{
		"same authority":  {global, global, "p.toml:2:22: /h/10.toml:2:22 already has a policy for authority global (remove it; only the host's files can have it)"},
		"workspace":       {"workspace = \"/\"\n", fsA, "/h/10.toml:2:13: a policy of the host can't choose the workspace (remove it)"},
		"speaks for host": {fsA, "[authorities.host]\n", `p.toml:2:14: unknown key "host" in [authorities] (the keys here are profile, provider, global, agent, group, sandbox, subagent)`},
	} {
		req := request("p.toml")
		req.HostDir = "/h"
		_, _, err := Load(req, tree{"/h/10.toml": policyText(c.host), "/w/p.toml": policyText(c.session)})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
		}
	}
	req := request()
	req.HostDir = "/h"
	_, _, err := Load(req, tree{"/h/untrusted.toml": policyText(fsA)})
	want := `/h/untrusted.toml: can't read policy "/h/untrusted.toml": /h/untrusted.toml is writable by users other than root (mode 0666)`
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

// The stage "*" is for the providers without one of their own.
func TestAnyProvider(t *testing.T) {
	files := tree{"/w/p.toml": policyText(fsA + "[[authorities.provider.\"*\".access.fs]]\npath = \"any\"\n[[authorities.provider.azure.access.fs]]\npath = \"azure\"\n")}
	for provider, want := range map[string]string{"": "", "openai": "fs any none", "openai/gpt-5": "fs any none", "Azure": "fs azure none", "azure/x": "fs azure none"} {
		req := request("p.toml")
		req.Provider = provider
		got := ""
		for _, l := range load(t, req, files).Layers {
			if l.Authority == policy.Provider {
				got = rules(&l)
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", provider, got, want)
		}
	}
}
