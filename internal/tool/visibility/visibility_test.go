package visibility

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/hostfs"
	"github.com/toolguard/toolguard/internal/policy/policyfile"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// load returns the tool layer of a session's policy, and of a host's if there is one.
func load(t testing.TB, session, host string) *toolset.Set {
	t.Helper()
	dir := t.TempDir()
	file := dir + "/p.toml"
	childtest.Must(t, os.WriteFile(file, []byte("version = 1\n"+session), 0o644))
	req := policyfile.Request{Policies: []string{file}, Dir: dir, Home: dir + "/home"}
	if host != "" {
		req.HostDir = dir + "/host"
		childtest.Must(t, os.Mkdir(req.HostDir, 0o755))
		childtest.Must(t, os.WriteFile(req.HostDir+"/h.toml", []byte("version = 1\n"+host), 0o644))
	}
	_, doc, err := policyfile.Load(req, trusting{})
	childtest.Must(t, err)
	return doc.Tools()
}

// trusting reads a host's policies of any owner, as tests don't run as root.
type trusting struct{ hostfs.Machine }

func (trusting) ReadTrusted(name string, most int) ([]byte, error) {
	return hostfs.Machine{}.Read(name, most)
}

func (trusting) List(dir string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func named(names string) (tools []Tool) {
	for _, n := range strings.Fields(names) {
		t := Tool{Name: n}
		if server, name, ok := strings.Cut(n, "|"); ok {
			t = Tool{Name: name, Server: server}
		}
		tools = append(tools, t)
	}
	return tools
}

func visible(r *Result) string {
	var names []string
	for _, t := range r.Tools {
		if t.Removed == nil {
			names = append(names, t.Name)
		}
	}
	return strings.Join(names, " ")
}

const all = "read write edit apply_patch exec process image message canvas cron gateway session_status sessions_send"

// Rows read as: under this policy, this caller sees these of the tools.
func TestDecide(t *testing.T) {
	for _, row := range []struct {
		name, policy string
		caller       Caller
		tools, want  string
	}{
		{"no policy: everything but what other models see", "", Caller{}, all, "read write edit exec process image message canvas cron gateway session_status sessions_send"},
		{"the owner's tools", "[tools]\ngateway = { owner_only = true }", Caller{}, "gateway read", "read"},
		{"the owner", "[tools]\ngateway = { owner_only = true }", Caller{Owner: true}, "gateway read", "gateway read"},
		{"never for a model, the owner's neither", "[tools]\ncron = { constraints.forbidden = true }", Caller{Owner: true}, "cron read", "read"},
		{"a profile", "[authorities.global]\nprofile = \"messaging\"", Caller{}, all, "message session_status sessions_send"},
		{"the caller's profile", "[authorities.global]\nprofile = \"messaging\"", Caller{Profile: "minimal"}, all, "session_status"},
		{"the agent's profile", "[authorities.global]\nprofile = \"messaging\"\n[authorities.agent.x]\nprofile = \"minimal\"", Caller{Agent: "x"}, all, "session_status"},
		{"full filters nothing", "[authorities.global]\nprofile = \"full\"", Caller{}, "x y", "x y"},
		{"also_allow", "[authorities.global]\nprofile = \"minimal\"\nalso_allow = [\"web_*\"]", Caller{}, "session_status web_search read", "session_status web_search"},
		{"also_allow of another profile", "[authorities.global]\nprofile = \"minimal\"\nalso_allow = [\"web_*\"]", Caller{Profile: "messaging"}, "session_status web_search read", "session_status"},
		{"a file's profile replaces a built-in one", "[profiles.minimal]\nallow = [\"read\"]\n[authorities.global]\nprofile = \"minimal\"", Caller{}, all, "read"},
		{"deny before allow", "[authorities.global]\nallow = [\"*\"]\ndeny = [\"w*\"]", Caller{}, "read write", "read"},
		{"an empty list allows nothing", "[authorities.global]\nallow = []", Caller{}, "read", ""},
		{"each stage narrows", "[authorities.global]\nallow = [\"read\", \"write\"]\n[authorities.agent.x]\nallow = [\"write\", \"exec\"]", Caller{Agent: "x"}, all, "write"},
		{"an agent without a table: that of *", "[authorities.agent.\"*\"]\nallow = [\"read\"]\n[authorities.agent.x]\nallow = [\"write\"]", Caller{Agent: "y"}, all, "read"},
		{"the stage for all doesn't apply where a named one does", "[authorities.agent]\nallow = [\"read\"]\n[authorities.agent.x]\nallow = [\"write\"]", Caller{Agent: "x"}, all, "write"},
		{"no agent: no stage of agents", "[authorities.agent]\nallow = [\"read\"]", Caller{}, "read write", "read write"},
		{"a provider", "[authorities.global.providers.openai]\ndeny = [\"edit\"]", Caller{Provider: "OpenAI"}, "read edit", "read"},
		{"an authority's provider, in any case", "[authorities.provider.OpenAI]\ndeny = [\"edit\"]", Caller{Provider: "openAI"}, "read edit", "read"},
		{"a model's own stage", "[authorities.global.providers]\nopenai = { deny = [\"edit\"] }\n\"openai/gpt-5.2\" = { deny = [\"read\"] }", Caller{Provider: "openai", Model: "gpt-5.2"}, "read edit", "edit"},
		{"a provider's profile", "[authorities.global.providers.google]\nprofile = \"minimal\"\nalso_allow = [\"read\"]", Caller{Provider: "google"}, all, "read session_status"},
		{"an agent's stage for a provider", "[authorities.agent.x.providers.openai]\ndeny = [\"edit\"]", Caller{Agent: "x", Provider: "openai"}, "read edit", "read"},
		{"not for another provider", "[authorities.agent.x.providers.openai]\ndeny = [\"edit\"]", Caller{Agent: "x", Provider: "google"}, "read edit", "read edit"},
		{"nor without one", "[authorities.agent.x.providers.openai]\ndeny = [\"edit\"]", Caller{Agent: "x"}, "read edit", "read edit"},
		{"a profile in another stage", "[authorities.sandbox]\nprofile = \"minimal\"\nalso_allow = [\"read\"]", Caller{Sandboxed: true}, all, "read session_status"},
		{"a list that is empty isn't unknown", "[authorities.group.x]\nallow = []\non_unknown = \"strip\"", Caller{Group: "x"}, "read", ""},
		{"a group", "[authorities.group.family]\nallow = [\"message\"]", Caller{Group: "family"}, all, "message"},
		{"a sandbox", "[authorities.sandbox]\ndeny = [\"gateway\"]", Caller{Sandboxed: true}, "gateway read", "read"},
		{"no sandbox", "[authorities.sandbox]\ndeny = [\"gateway\"]", Caller{}, "gateway read", "gateway read"},
		{"sub-agents don't orchestrate", "", Caller{Depth: 1}, all + " conversations_list", "read write edit exec process image canvas"},
		{"a file only adds to what sub-agents lose", "[authorities.subagent]\nallow = [\"cron\", \"read\"]\ndeny = [\"exec\"]", Caller{Depth: 1}, all, "read"},
		{"too deep", "", Caller{Depth: 2}, "read", ""},
		{"not too deep", "[authorities.subagent]\nmax_depth = 2", Caller{Depth: 2}, "read", "read"},
		{"names are compared in one form", "[authorities.global]\ndeny = [\"Web-Fetch\"]", Caller{}, "web_fetch WEB_FETCH2", "web_fetch2"},
		{"the later of two equal names", "", Caller{}, "read READ", "read"},
		{"an alias", "[tools.Bash]\naliases = [\"run_shell\"]\n[authorities.global]\nallow = [\"bash\"]", Caller{}, "run-shell read", "run_shell"},
		{"an alias is denied by its tool's name", "[tools.Bash]\naliases = [\"run_shell\"]\n[authorities.global]\ndeny = [\"bash\"]", Caller{}, "run_shell read", "read"},
		{"a tool is denied by its alias", "[tools.Bash]\naliases = [\"run_shell\"]\n[authorities.global]\ndeny = [\"run_shell\"]", Caller{}, "Bash read", "read"},
		{"an alias is denied by a pattern", "[tools.Bash]\naliases = [\"run_shell\"]\n[authorities.global]\ndeny = [\"run_*\"]", Caller{}, "run_shell read", "read"},
		{"a tool is allowed by its alias", "[tools.Bash]\naliases = [\"run_shell\"]\n[authorities.global]\nallow = [\"run_shell\"]", Caller{}, "Bash read", "bash"},
		{"an alias of a tool that's there, too", "[tools.Bash]\naliases = [\"run_shell\"]", Caller{}, "bash run_shell", "bash"},
		{"names that no policy can mean", "", Caller{}, "group:fs read\x01 " + strings.Repeat("x", 129), ""},
		{"a server's tool has the full name in allow", "[authorities.global]\nallow = [\"read\"]", Caller{}, "evil|read read", "read"},
		{"and both in deny", "[authorities.global]\ndeny = [\"read\"]", Caller{}, "evil|read write", "write"},
		{"a server's tool is allowed by its full name", "[authorities.global]\nallow = [\"mcp__fs__read_*\"]", Caller{}, "fs|read_file fs|write_file mcp__fs__read_dir", "mcp__fs__read_file mcp__fs__read_dir"},
		{"a server's tool in another spelling, by its bare name", "[authorities.global]\ndeny = [\"secret_*\"]\n[tools]\nkeys = { owner_only = true }", Caller{}, "mcp--fs--secret_read mcp_-fs__secret_y MCP__fs__keys mcp-_fs-_list fs|mcp--fs--secret_x", "mcp__fs__list"},
		{"a server can't use another one's name", "[authorities.global]\nallow = [\"mcp__fs__*\"]", Caller{}, "evil|mcp__fs__read_file fs|mcp__fs__read_dir", "mcp__fs__read_dir"},
		{"a server's tool implies nothing by its bare name", "[authorities.global]\nallow = [\"mcp__evil__*\"]", Caller{Provider: "openai"}, "evil|exec apply_patch", "mcp__evil__exec"},
		{"and is in no plug-in's group in allow", "[tools]\nlookup = { plugin = \"contacts\" }\n[authorities.global]\nallow = [\"group:contacts\"]", Caller{}, "evil|lookup lookup", "lookup"},
		{"but in deny", "[tools]\nlookup = { plugin = \"contacts\" }\n[authorities.global]\ndeny = [\"group:contacts\"]", Caller{}, "evil|lookup lookup read", "read"},
		{"a table for the bare name takes no mark away", "[tools]\n\"*\" = { owner_only = true }\nread = { owner_only = false }", Caller{}, "evil|read read", "read"},
		{"it forbids all the same", "[tools]\nread = { constraints.forbidden = true }", Caller{}, "evil|read write", "write"},
		{"nor allows it what forbids others", "[tools]\n\"*\" = { constraints.forbidden = true }\nread = { constraints.forbidden = false }", Caller{}, "evil|read read", "read"},
		{"nor adds models", "[tools]\n\"*\" = { models = [\"openai\"] }\nread = { models = [\"anthropic\"] }", Caller{Provider: "anthropic"}, "evil|read read", "read"},
		{"its models restrict all the same", "[tools]\nread = { models = [\"anthropic\"] }", Caller{Provider: "openai"}, "evil|read write", "write"},
		{"group:all", "[authorities.global]\nallow = [\"group:all\"]", Caller{}, "x", "x"},
		{"plug-ins", "[tools]\n\"cal_*\" = { plugin = \"calendar\" }\n[authorities.global]\nallow = [\"group:calendar\"]", Caller{}, "cal_list read", "cal_list"},
		{"all plug-ins", "[tools]\n\"cal_*\" = { plugin = \"calendar\" }\n[authorities.global]\nallow = [\"group:plugins\"]", Caller{}, "cal_list read", "cal_list"},
		{"a table for a plug-in's group", "[tools]\nlookup = { plugin = \"contacts\" }\n\"group:contacts\" = { owner_only = true }", Caller{}, "lookup evil|lookup read", "read"},
		{"a list of unknown names allows nothing", "[authorities.group.x]\nallow = [\"voice_*\"]", Caller{Group: "x"}, "read", ""},
		{"and is dropped where the policy says so", "[authorities.group.x]\nallow = [\"voice_*\"]\non_unknown = \"strip\"", Caller{Group: "x"}, "read", "read"},
		{"but not if one of its names is built in", "[authorities.group.x]\nallow = [\"voice_*\", \"canvas\"]\non_unknown = \"strip\"", Caller{Group: "x"}, "read", ""},
		{"exec implies apply_patch", "[authorities.global]\nallow = [\"exec\"]", Caller{Provider: "openai"}, "exec apply_patch", "exec apply_patch"},
		{"also if exec itself isn't offered", "[authorities.global]\nallow = [\"exec\"]", Caller{Provider: "openai"}, "apply_patch", "apply_patch"},
		{"unless it's denied", "[authorities.global]\nallow = [\"exec\"]\ndeny = [\"apply_patch\"]", Caller{Provider: "openai"}, "exec apply_patch", "exec"},
		{"a tool that's gone implies nothing", "[authorities.global]\nallow = [\"exec\"]\n[tools.exec]\nowner_only = true", Caller{Provider: "openai"}, "exec apply_patch", ""},
		{"it isn't transitive", "[tools]\na = { implies = [\"b\"] }\nb = { implies = [\"c\"] }\n[authorities.global]\nallow = [\"a\"]", Caller{}, "a b c", "a b"},
		{"apply_patch for OpenAI's models", "", Caller{Provider: "openai", Model: "gpt-5.2"}, "apply_patch", "apply_patch"},
		{"not for others", "", Caller{Provider: "anthropic", Model: "claude-opus-4-5"}, "apply_patch", ""},
		{"not without a provider, where exec implies it either", "[authorities.global]\nallow = [\"exec\"]", Caller{}, "exec apply_patch", "exec"},
		{"models are added", "[tools]\napply_patch = { models = [\"anthropic/claude-*\"] }", Caller{Provider: "anthropic", Model: "claude-opus-4-5"}, "apply_patch", "apply_patch"},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := Decide(load(t, row.policy, ""), row.caller, named(row.tools))
			if got := visible(r); got != row.want {
				t.Errorf("sees %q, want %q", got, row.want)
			}
		})
	}
}

// The host's files come first, and the session's can't widen them.
func TestAuthors(t *testing.T) {
	const host = "[authorities.global]\nallow = [\"read\", \"exec\"]\n[tools]\nexec = { owner_only = true }\n"
	set := load(t, "[authorities.global]\nallow = [\"*\"]\n[tools]\nexec = { owner_only = false }\nread = { aliases = [\"write\"] }\n", host)
	r := Decide(set, Caller{}, named("write exec read"))
	if got := visible(r); got != "" {
		t.Errorf("sees %q", got) // write is read to the session's files, so that read is a second one
	}
	if r := Decide(set, Caller{Owner: true}, named("exec edit")); visible(r) != "exec" || r.Tools[1].Removed.Rule.ID != "host.authorities.global.allow" {
		t.Errorf("%+v", r.Tools)
	}
}

func TestWarnings(t *testing.T) {
	set := load(t, "[authorities.global]\nallow = [\"voice_*\", \"telephone\", \"canvas\", \"read\"]\n[authorities.agent]\ndeny = []\n[authorities.agent.x]\n", "")
	if r := Decide(set, Caller{Agent: "x"}, named("read voice_x telephone")); len(r.Warnings) > 0 {
		t.Errorf("%q", r.Warnings)
	}
	if r := Decide(load(t, "[authorities.agent]\ndeny = []\n", ""), Caller{Agent: "y"}, named("read")); len(r.Warnings) > 0 {
		t.Errorf("without a table for any agent: %q", r.Warnings)
	}
	r := Decide(set, Caller{Agent: "y"}, named("read"))
	want := []string{`agent "y" has no table: what is written for all applies`, "tools: tools.global allowlist contains unknown entries (voice_*, telephone)"}
	if !slices.Equal(r.Warnings, want) {
		t.Errorf("%q", r.Warnings)
	}
}

// The host may mark a tool as the owner's, too.
func TestMarkOfTheList(t *testing.T) {
	set, given := load(t, "", ""), []Tool{{Name: "x", OwnerOnly: true}, {Name: "y"}}
	if got := visible(Decide(set, Caller{}, given)); got != "y" {
		t.Errorf("sees %q", got)
	}
	if got := visible(Decide(set, Caller{Owner: true}, given)); got != "x y" {
		t.Errorf("the owner sees %q", got)
	}
}

func TestExplain(t *testing.T) {
	set := load(t, "[authorities.global]\nallow = [\"group:fs\"]\n[authorities.agent.x]\ndeny = [\"w*\"]\n", "")
	c := Caller{Agent: "x", Provider: "openai"}
	e := Explain(set, c, named("read write"), "Write")
	var labels []string
	for _, s := range e.Stages {
		labels = append(labels, s.Label+"="+s.Result)
	}
	const want = "owner=keep tools.profile=absent tools.provider-profile (openai)=absent tools.global=keep tools.global-provider=absent tools.agent (x)=remove"
	if strings.Join(labels, " ") != want {
		t.Errorf("%s\nwant %s", strings.Join(labels, " "), want)
	}
	if r := e.Removed; r == nil || r.Reason != Denied || r.Rule.ID != "authorities.agent.x.deny" || r.Rule.At.Line != 5 {
		t.Errorf("%+v", e.Removed)
	}
	if last := e.Stages[len(e.Stages)-1]; last.Pattern != "w*" || last.Rule.ID != "authorities.agent.x.deny" {
		t.Errorf("%+v", last)
	}
	if e := Explain(set, c, nil, "exec"); e.Removed.Reason != NotAllowed || e.Stages[len(e.Stages)-1].Pattern != "" || e.Removed.Rule.At.Line != 3 {
		t.Errorf("%+v", e)
	}
	if e := Explain(set, c, named("read"), "read"); e.Name != "read" || e.Normal != "read" || e.Removed != nil {
		t.Errorf("the first of the list: %+v", e)
	}
	if e := Explain(set, c, nil, "read"); e.Removed != nil || e.Stages[len(e.Stages)-1].Label != "group tools.allow" || e.Stages[3].Pattern != "group:fs" {
		t.Errorf("%+v", e)
	}
	if e := Explain(set, c, nil, "a b"); e.Removed == nil || e.Removed.Reason != BadName || len(e.Stages) != 1 {
		t.Errorf("%+v", e)
	}
}

// FuzzStages: a stage that is added never shows a tool that wasn't seen before, and Explain agrees with Decide.
func FuzzStages(f *testing.F) {
	f.Add("read", "w*", uint8(3), "x", "openai")
	f.Add("group:fs", "exec", uint8(7), "", "")
	f.Fuzz(func(t *testing.T, allow, deny string, which uint8, agent, provider string) {
		for _, s := range []string{allow, deny, agent, provider} {
			if s != "" && !toolset.ValidName(strings.ReplaceAll(strings.TrimPrefix(s, "group:"), "*", "x")) {
				t.Skip()
			}
		}
		if allow == "" || deny == "" || strings.HasPrefix(allow, "group:") && allow != "group:fs" || strings.HasPrefix(deny, "group:") {
			t.Skip()
		}
		stage := fmt.Sprintf("allow = [%q, \"exec\"]\ndeny = [%q]\n", allow, deny)
		policy := ""
		for i, name := range []string{"global", "agent", "provider", "group", "sandbox", "subagent", "profile"} {
			if which&(1<<i) != 0 {
				policy += "[authorities." + name + "]\n" + stage
			}
		}
		tools := named(all)
		c := Caller{Agent: agent, Provider: provider, Owner: true, Depth: int(which >> 7), Sandboxed: true}
		set := load(t, policy, "")
		before, after := Decide(load(t, "", ""), c, tools), Decide(set, c, tools)
		for i := range tools {
			if before.Tools[i].Removed != nil && after.Tools[i].Removed == nil {
				t.Errorf("%s: a stage has added %s", policy, tools[i].Name)
			}
			e := Explain(set, c, tools, tools[i].Name)
			if (e.Removed == nil) != (after.Tools[i].Removed == nil) || e.Removed != nil && *e.Removed != *after.Tools[i].Removed {
				t.Errorf("%s: %s: %+v, %+v", policy, tools[i].Name, e.Removed, after.Tools[i].Removed)
			}
		}
	})
}

// BenchmarkDecide takes 10,000 tools through twelve stages.
func BenchmarkDecide(b *testing.B) {
	const stage = "allow = [\"t*\", \"group:fs\"]\ndeny = [\"x1\", \"y*\"]\n"
	policy := "[authorities.global]\nprofile = \"p\"\n" + stage + "[authorities.global.providers.openai]\n" + stage + "[profiles.p]\n" + stage
	for _, name := range []string{"profile", "provider", "agent.a", "agent.a.providers.openai", "group", "sandbox", "subagent"} {
		policy += "[authorities." + name + "]\n" + stage
	}
	set := load(b, policy, "")
	tools := make([]Tool, 10_000)
	for i := range tools {
		tools[i].Name = fmt.Sprintf("tool_%d", i)
	}
	for b.Loop() {
		r := Decide(set, Caller{Agent: "a", Provider: "openai", Depth: 1, Sandboxed: true}, tools)
		if r.Tools[0].Removed != nil {
			b.Fatal(r.Tools[0].Removed)
		}
	}
}

func TestCheckServer(t *testing.T) {
	for name, want := range map[string]bool{"fs": true, "My-Server.2": true, "_a": true, "": false, "a__b": false, "a-_b": false, "a_": false, "a-": false, "a b": false} {
		if err := CheckServer(name); (err == nil) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A name without a table, where others have one, may be mistyped.
func TestUnknownNames(t *testing.T) {
	set := load(t, "[authorities.agent.reviewer]\ndeny = [\"write\"]\n[authorities.group.\"*\"]\ndeny = [\"x\"]\n", "")
	for agent, want := range map[string]int{"reviewer": 0, "": 0, "Reviewer": 1} {
		if w := UnknownNames(set, Caller{Agent: agent, Group: "any", Provider: "any"}); len(w) != want {
			t.Errorf("%s: %q", agent, w)
		}
	}
}
