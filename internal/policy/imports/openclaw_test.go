package imports

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/toolguard/toolguard/internal/childtest"
	"github.com/toolguard/toolguard/internal/policy/toolset"
	"github.com/toolguard/toolguard/internal/tool/gate"
)

// clawModel decides which tools are visible as OpenClaw does: filters, one after the other.
type clawModel struct {
	config map[string]any
	old    bool // Clawdbot
}

var clawGroups = map[string]string{
	"fs": "read write edit apply_patch", "runtime": "exec process", "memory": "memory_search memory_get", "web": "web_search web_fetch",
	"sessions": "sessions_list sessions_history sessions_send sessions_spawn", "messaging": "message", "ui": "browser canvas", "automation": "cron gateway",
	"clawdbot": "browser canvas nodes cron message gateway", "nodes": "nodes",
}

var clawProfiles = map[string]string{
	"minimal": "session_status", "coding": "group:fs group:runtime group:sessions group:memory image",
	"messaging": "group:messaging sessions_list sessions_history sessions_send session_status",
}

// clawTools are those that the test asks about.
var clawTools = strings.Fields("read write edit apply_patch exec process memory_search memory_get web_search web_fetch sessions_list sessions_history sessions_send " +
	"sessions_spawn session_status message browser canvas cron gateway nodes image agents_list tts tts_long my_test_tool fs:read other")

func clawMatch(entries []string, name string) bool {
	return slices.ContainsFunc(entries, func(e string) bool {
		e = strings.ToLower(strings.TrimSpace(e))
		if group, ok := strings.CutPrefix(e, "group:"); ok {
			return clawMatch(strings.Fields(clawGroups[group]), name)
		}
		e = cmp.Or(map[string]string{"bash": "exec", "apply-patch": "apply_patch"}[e], e)
		ok, _ := path.Match(e, name)
		return ok
	})
}

func (m clawModel) passes(policy any, name string) bool {
	list, given := get(policy, "allow").([]any)
	entries := texts(get(policy, "allow"))
	switch {
	case clawMatch(texts(get(policy, "deny")), name):
		return false
	case !given || len(list) == 0 && !m.old:
		return true
	}
	return clawMatch(entries, name) || name == "apply_patch" && clawMatch(entries, "exec")
}

// profile filters by a profile, with what is added to it.
func (m clawModel) profile(id string, also []string, name string) bool {
	list := strings.Fields(clawProfiles[id])
	return len(list) == 0 || clawMatch(append(list, also...), name) || name == "apply_patch" && clawMatch(append(list, also...), "exec")
}

func (m clawModel) visible(c gate.Call, name string) bool {
	all := get(m.config, "tools")
	agents, _ := get(m.config, "agents", "list").([]any)
	var own any
	for _, a := range agents {
		if c.Agent != "" && get(a, "id") == c.Agent {
			own = get(a, "tools")
		}
	}
	text := func(v any) string { s, _ := v.(string); return s }
	either := func(keys ...string) any {
		if v := get(own, keys...); v != nil {
			return v
		}
		return get(all, keys...)
	}
	by := func(of any) any {
		if v := get(of, "byProvider", c.Provider+"/"+c.Model); v != nil {
			return v
		}
		return get(of, "byProvider", c.Provider)
	}
	models := texts(get(all, "exec", "applyPatch", "allowModels"))
	switch {
	case !c.Owner && slices.Contains(openClawOwn, name),
		name == "apply_patch" && (c.Provider != "openai" || len(models) > 0 && !slices.Contains(models, c.Model)),
		!m.profile(text(either("profile")), texts(either("alsoAllow")), name),
		!m.profile(text(get(by(own), "profile")), nil, name), !m.profile(text(get(by(all), "profile")), nil, name),
		!m.passes(all, name), !m.passes(by(all), name), !m.passes(own, name), !m.passes(by(own), name):
		return false
	}
	sub := get(all, "subagents", "tools")
	lost := strings.Fields("sessions_list sessions_history sessions_send sessions_spawn gateway agents_list session_status cron message memory_search memory_get")
	return c.Depth == 0 || !slices.Contains(lost, name) && m.passes(sub, name)
}

func TestOpenClawDecidesAsTheModel(t *testing.T) {
	for _, x := range []struct {
		from, fixture string
		left          int
		narrower      bool // a group or a plugin that is denied isn't known
	}{
		{"openclaw", "openclaw-agents.json5", 0, false},
		{"openclaw", "openclaw-sandbox.json5", 5, true},
		{"openclaw", "openclaw-open.json5", 1, false},
		{"clawdbot", "clawdbot-layers.json5", 0, false},
		{"clawdbot", "clawdbot-group.json5", 0, false},
		{"clawdbot", "clawdbot-full.json5", 0, false},
	} {
		t.Run(x.fixture, func(t *testing.T) {
			im := importFixture(t, x.from, x.fixture)
			if len(im.left) != x.left {
				t.Errorf("without an equivalent: %q", im.left)
			}
			m := clawModel{im.source, x.from == "clawdbot"}
			for _, c := range []gate.Call{
				{},
				{Owner: true},
				{Agent: "main"},
				{Agent: "family"},
				{Agent: "helper"},
				{Agent: "open"},
				{Agent: "bot"},
				{Agent: "none"},
				{Agent: "quiet"},
				{Depth: 1},
				{Agent: "helper", Depth: 1},
				{Provider: "openai", Model: "gpt-5.2"},
				{Provider: "openai", Model: "other"},
				{Provider: "google-antigravity"},
				{Provider: "openai", Model: "gpt-5.2", Agent: "family"},
			} {
				for _, name := range clawTools {
					got := im.visible(c, name)
					im.same(verdict(got), verdict(m.visible(c, name)), x.narrower, "%s for %+v", name, c)
				}
			}
			im.enough(map[bool]int{false: 100, true: 20}[x.narrower])
		})
	}
}

// The tools of a sandbox are those of the configuration, or OpenClaw's own where it has a sandbox and no list.
func TestOpenClawSandbox(t *testing.T) {
	for fixture, visible := range map[string]string{
		"openclaw-open.json5": "exec write image sessions_send", "openclaw-agents.json5": "exec write web_search image sessions_send",
	} {
		t.Run(fixture, func(t *testing.T) {
			im := importFixture(t, "openclaw", fixture)
			im.Sandboxed = true
			var got []string
			for _, name := range strings.Fields("browser canvas exec write web_search image sessions_send cron") {
				if im.visible(gate.Call{Owner: true}, name) {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != visible {
				t.Errorf("%q are visible, not %q", got, visible)
			}
		})
	}
}

// clawApprovals decides about the parts of a command line as OpenClaw does: a person is asked unless each one is listed. It's narrower here for
// programs that don't exist, and for what a list of programs can't name: patterns of paths and expressions for arguments.
type clawApprovals struct{ listed, missing []string }

func (m clawApprovals) decide(parts []string) (want int, narrower bool) {
	want = allow
	for _, p := range parts {
		program, args, _ := strings.Cut(p, " ")
		narrower = narrower || slices.Contains(m.missing, program) || p == "git status"
		if !slices.Contains(m.listed, program) && (program != "git" || args != "status") {
			want = ask
		}
	}
	return want, narrower
}

func TestExecApprovalsDecideAsTheModel(t *testing.T) {
	im := importFixture(t, "openclaw", "openclaw-approvals.json")
	if text := fmt.Sprint(im.left); strings.Contains(text, "not-to-be-printed") {
		t.Error("the token is printed")
	}
	rg := im.Home + "/Projects/x/bin/rg"
	m := clawApprovals{listed: []string{"cat", "/bin/ls", rg}, missing: []string{"catx", rg}}
	parts := []string{
		"cat src/a", "cat -n src/a", "cat", "/bin/ls src", "/bin/ls -l", "head src/a", "sort src/a", "git status", "git push", "catx src/a", rg + " x",
	}
	for _, agent := range []string{"", "main", "other"} {
		for _, first := range parts {
			im.askApprovals(m, agent, first, first)
			for _, second := range parts {
				for _, between := range []string{" && ", " | ", "; ", " || "} {
					im.askApprovals(m, agent, first+between+second, first, second)
				}
			}
		}
	}
	im.enough(80)
}

// askApprovals asks about a command line with the given parts. Security is deny for all agents but one.
func (im *imported) askApprovals(m clawApprovals, agent, line string, parts ...string) {
	im.t.Helper()
	want, narrower := m.decide(parts)
	if agent != "main" {
		want, narrower = deny, false
	}
	im.same(im.call("exec", gate.Call{Agent: agent}, "command", line), want, narrower, "%s by %q", line, agent)
}

// The profiles and groups that an import relies on are those that are built in.
func TestBuiltinProfilesAndGroups(t *testing.T) {
	text := childtest.ReadFile(t, "../policyfile/builtin/tools.toml")
	builtin, err := readTOML(text)
	childtest.Must(t, err)
	profiles, _ := get(builtin, "profiles").(map[string]any)
	for name, p := range profiles {
		if want := texts(get(p, "allow")); !slices.Equal(clawProfile[name], want) {
			t.Errorf("profile %s: %q, not %q", name, clawProfile[name], want)
		}
	}
	for name := range clawProfile {
		if profiles[name] == nil {
			t.Errorf("profile %s isn't built in", name)
		}
	}
	groups, _ := get(builtin, "groups").(map[string]any)
	want := append(sortedKeys(groups), toolset.GroupAll, toolset.GroupPlugins)
	if got := slices.Sorted(slices.Values(builtinGroups)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		t.Errorf("groups: %q, not %q", got, want)
	}
}
