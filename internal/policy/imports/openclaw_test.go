package imports

import (
	"cmp"
	"fmt"
	"os"
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
			if !x.narrower {
				im.enough()
			}
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

// Commands are decided by security, ask and the list of the agent.
func TestExecApprovalsDecideAsTheModel(t *testing.T) {
	im := importFixture(t, "openclaw", "openclaw-approvals.json")
	if text := fmt.Sprint(im.left); strings.Contains(text, "not-to-be-printed") {
		t.Error("the token is printed")
	}
	listed := map[string]bool{"cat": true, "/bin/ls": true}
	for _, agent := range []string{"", "main", "other"} {
		for n := range 25 {
			for _, command := range []string{"cat", "/bin/ls", "head", "rg"} {
				want := deny // security of all others
				if agent == "main" {
					want = map[bool]int{true: allow, false: ask}[listed[command]]
				}
				got := im.call("exec", gate.Call{Agent: agent}, "command", fmt.Sprintf("%s file%d", command, n))
				im.same(got, want, false, "%s by %q", command, agent)
			}
			// A list of commands doesn't let one that is listed run another one.
			if agent == "main" {
				im.same(im.call("exec", gate.Call{Agent: agent}, "command", fmt.Sprintf("cat file%d && rg x", n)), ask, false, "a second command")
			}
		}
	}
	im.enough()
}

// The profiles and groups that an import relies on are those that are built in.
func TestBuiltinProfilesAndGroups(t *testing.T) {
	text, err := os.ReadFile("../policyfile/builtin/tools.toml")
	childtest.Must(t, err)
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
