package imports

import (
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// The tools that only the owner of an OpenClaw may use, whatever its configuration says.
var openClawOwn = []string{"cron", "gateway", "nodes", "whatsapp_login"}

// The groups of OpenClaw that aren't built in here.
var openClawGroups = map[string][]string{
	"nodes":  {"nodes"},
	"agents": {"agents_list"},
	"openclaw": {
		"group:fs", "group:runtime", "group:sessions", "group:memory", "group:web", "group:ui", "group:automation", "group:messaging",
		"session_status", "agents_list", "nodes", "image",
	},
}

// openClawMore are the tools that later versions of OpenClaw have in a group, or call by another name. They are denied with it, and never
// allowed.
var openClawMore = map[string][]string{
	"group:runtime": {"code_execution"},
	"group:web":     {"x_search"},
	"group:sessions": {
		"sessions", "sessions_search", "sessions_yield", "conversations_*", "subagents", "session_status", "suggest_task", "dismiss_task",
	},
	"group:ui":         {"screen", "theme", "dashboard", "terminal", "portal", "show_widget"},
	"group:automation": {"heartbeat_respond", "automations", "plugins", "openclaw"},
	"group:nodes":      {"computer"},
	"group:agents":     {"get_goal", "create_goal", "update_goal", "progress_card", "ask_user", "skill_workshop"},
	"group:media":      {"view_image", "image_generate", "music_generate", "video_generate", "transcripts", "tts", "pdf"},
	"cron":             {"automations"},
	"image":            {"view_image"},
	"update_plan":      {"progress_card"},
}

var builtinGroups = []string{"all", "plugins", "fs", "runtime", "memory", "web", "sessions", "messaging", "ui", "automation", "clawdbot"}

// clawProfile are the built-in profiles.
var clawProfile = map[string][]string{
	"minimal":   {"session_status"},
	"coding":    {"group:fs", "group:runtime", "group:sessions", "group:memory", "image"},
	"messaging": {"group:messaging", "sessions_list", "sessions_history", "sessions_send", "session_status"},
}

// claw reads a configuration of OpenClaw's.
type claw struct {
	*importer
	old     bool     // it's Clawdbot's, in which an empty list allows nothing
	plugins []string // that the configuration names
	used    []string // groups that aren't built in
}

// openClaw reads openclaw.json and clawdbot.json: tools and agents. exec-approvals.json has no such keys.
func (i *importer) openClaw(o *object, old bool) {
	if o.has("version") && !o.has("tools") {
		i.execApprovals(o)
		return
	}
	c := &claw{importer: i, old: old}
	o.unrelated("$schema", "meta", "wizard", "ui", "logging", "models", "auth", "update", "talk", "web", "env")
	plugins, tools, agents := o.object("plugins"), o.object("tools"), o.object("agents")
	c.plugins = plugins.object("entries").keys()
	list, defaults := agents.objects("list"), agents.object("defaults")
	box := c.box(defaults.object("sandbox"), clawBox{})
	c.choices(box.workspace())
	global, also := c.stage(tools, "tools")
	global.profile, global.also = c.profile(tools), also
	c.disabled(plugins, &global)
	global.write(i, "authorities.global")
	c.providers(tools, "authorities.global", nil)
	c.exec(tools.object("exec"), "approvals")
	c.sandbox(tools.object("sandbox").object("tools"), box, list)
	subTools := tools.object("subagents").object("tools")
	sub, also := c.stage(subTools, "tools.subagents.tools")
	c.unused(subTools, also)
	sub.write(i, "authorities.subagent")
	subagents := defaults.object("subagents")
	if depth := subagents.number("maxSpawnDepth"); depth > 0 {
		i.set("authorities.subagent", "max_depth", strconv.Itoa(depth), "agents.defaults.subagents.maxSpawnDepth")
	}
	subagents.unrelated("maxConcurrent", "archiveAfterMinutes", "model", "thinking")
	defaults.unrelated("workspace", "model", "models", "imageModel", "userTimezone", "timeFormat", "thinkingDefault", "verboseDefault", "heartbeat",
		"compaction", "contextTokens", "contextPruning", "memorySearch", "humanDelay", "typingMode")
	for _, a := range list {
		c.agent(a, tools, &global, box)
	}
	c.patches(tools.object("exec").object("applyPatch"))
	tools.unrelated("media", "links", "loopDetection")
	c.groups()
	for _, name := range openClawOwn {
		i.set(c.tool(name), "owner_only", "true", "only the owner may use this tool, whatever the configuration says")
	}
}

// choices writes what the source leaves open: it has no rules for files, hosts and variables. workspace is "rw", "ro" or "none".
func (i *importer) choices(workspace string) {
	i.note("access", "The source has no rules for files, hosts, variables and programs: each tool has all. This is toolguard's default instead.")
	i.set("access", "default", `{ fs = "deny", net = "deny", commands = "allow" }`)
	if workspace != "none" {
		i.add("access.fs", workspaceGrant(workspace))
	}
}

// workspaceGrant is the rule of the workspace.
func workspaceGrant(access string) tomltext.Keys {
	k := tomltext.Keys{`path = "."`}
	k.AddFlag("read", access != "none")
	k.AddFlag("write", access == "rw")
	k.AddFlag("execute", access != "none")
	return k
}

func (c *claw) profile(t *object) string {
	return strings.ToLower(t.text("profile", "", "minimal", "coding", "messaging", "full"))
}

// stage reads the lists of a table, and the list of alsoAllow.
func (c *claw) stage(t *object, at string) (s stage, also []string) {
	allow, given := t.texts("allow")
	if given {
		s.filters, s.allow = true, c.allowed(allow, t.at("allow"))
	}
	s.from = []string{at}
	if given && len(allow) == 0 && !c.old {
		s.filters = false // an empty list there allows all
	}
	more, has := t.texts("alsoAllow")
	if also = c.allowed(more, t.at("alsoAllow")); has && s.filters {
		s.allow = append(s.allow, also...)
		also = nil
	}
	deny, _ := t.texts("deny")
	s.deny = c.denied(deny, t.at("deny"))
	return s, also
}

// entry is a name or a pattern as toolguard writes it. ok is false if there's no equivalent.
func (c *claw) entry(e string) (out string, ok bool) {
	e = strings.ToLower(strings.TrimSpace(e))
	switch e {
	case "bash":
		return "exec", true
	case "apply-patch":
		return "apply_patch", true
	}
	if group, is := strings.CutPrefix(e, toolset.GroupPrefix); is {
		if _, more := openClawGroups[group]; more {
			c.used = append(c.used, group)
			return e, true
		}
		return e, slices.Contains(builtinGroups, group)
	}
	return e, validPattern(e)
}

func (c *claw) allowed(list []string, at string) (out []string) {
	for _, e := range list {
		switch own, ok := c.entry(e); {
		case !ok:
			c.leave(at, "%s is no pattern or group here; left out, which allows less", tomltext.Quote(e))
		case slices.Contains(c.plugins, own):
			c.leave(at, "%s is a plugin: name its tools; left out, which allows less", tomltext.Quote(e))
		default:
			out = append(out, own)
		}
	}
	return out
}

func (c *claw) denied(list []string, at string) (out []string) {
	for _, e := range list {
		own, ok := c.entry(e)
		if group := strings.HasPrefix(own, toolset.GroupPrefix); !ok && group || slices.Contains(c.plugins, own) {
			c.leave(at, "%s is no group here whose tools are known; each tool is denied in its place", tomltext.Quote(e))
			own, ok = "*", true
		}
		if ok {
			if out = append(out, own); !c.old {
				out = append(out, openClawMore[own]...)
			}
			if own == "group:openclaw" { // it has the others
				for _, group := range sortedKeys(openClawMore) {
					out = append(out, openClawMore[group]...)
				}
			}
			continue
		}
		c.leave(at, "no tool can have the name %s, so nothing is denied", tomltext.Quote(e))
	}
	return out
}

// providers writes byProvider of a table. Of an agent, from is that of all, whose profiles apply where the agent's table has none.
func (c *claw) providers(t *object, header string, from *object) {
	by := t.object("byProvider")
	for _, name := range by.keys() {
		p := by.object(name)
		if strings.Contains(name, "*") || name == "" {
			c.leave(p.path, "no provider has this name; left out")
			continue
		}
		s, also := c.stage(p, p.path)
		s.profile, s.also = c.profile(p), also
		if s.profile == "" && from != nil && len(also) > 0 {
			s.profile = c.profile(from.object("byProvider").object(name))
		}
		if s.profile != "" && s.filters {
			c.leave(p.path, "profile and allow together: both apply")
		}
		s.write(c.importer, header+"."+join("providers", name))
	}
}

// agent writes the stage of an agent. What it doesn't say of profile and alsoAllow is that of all.
func (c *claw) agent(a, all *object, global *stage, box clawBox) {
	id := a.text("id")
	if id == "" || strings.Contains(id, "*") {
		c.fail(a.at("id"), "%s is no agent's id", tomltext.Quote(id))
		return
	}
	t := a.object("tools")
	header := join("authorities", "agent", id)
	s, also := c.stage(t, t.path)
	if own := c.profile(t); own != "" || t.has("alsoAllow") && !s.filters {
		s.profile, s.also = own, also
		if own == "" {
			s.profile = global.profile
		}
		if !t.has("alsoAllow") {
			s.also = global.also
		}
		if s.profile != "" && s.profile == global.profile && len(clawProfile[s.profile]) > 0 && !s.filters {
			// The profile of all agents has their alsoAllow, so this agent's is a profile of its own.
			own := "agent-" + id
			c.set(join("profiles", own), "allow", tomltext.Strings(unique(append(slices.Clone(clawProfile[s.profile]), s.also...))), t.path)
			s.profile, s.also = own, nil
		}
		if s.filters && len(s.also) > 0 {
			c.leave(t.path, "profile and allow: alsoAllow of all agents isn't added to the profile, which allows less")
		}
	}
	c.agentBox(a.object("sandbox"), header, box)
	if boxed := t.object("sandbox").object("tools"); len(boxed.m) > 0 {
		own, also := c.stage(boxed, boxed.path)
		c.unused(boxed, also)
		c.leave(boxed.path, "a sandbox's tools are the same for all agents here: written for the agent, also where it has no sandbox")
		s.deny = append(s.deny, own.deny...)
		if own.filters {
			s.restrict(own.allow)
		}
	}
	s.write(c.importer, header)
	c.providers(t, header, all)
	if exec := t.object("exec"); len(exec.m) > 0 {
		c.exec(exec, join("approvals", "agents", id))
	}
	a.unrelated("default", "name", "workspace", "agentDir", "model", "identity", "heartbeat", "groupChat", "memorySearch", "humanDelay")
}

// patches writes which models see apply_patch.
func (c *claw) patches(p *object) {
	if on, given := p.flag("enabled"); given && !on {
		c.set(c.tool("apply_patch"), "constraints.forbidden", "true", p.at("enabled"))
	}
	if list, given := p.texts("allowModels"); given && len(list) > 0 {
		models := []string{}
		for _, m := range list {
			if m = strings.ToLower(strings.TrimSpace(m)); !strings.Contains(m, "/") {
				m = "openai/" + m
			}
			models = append(models, m)
		}
		c.set(c.tool("apply_patch"), "models", `{ strategy = "replace", value = `+tomltext.Strings(models)+" }", p.at("allowModels"))
	}
}

// groups writes the groups that were used and aren't built in.
func (c *claw) groups() {
	slices.Sort(c.used)
	for _, g := range slices.Compact(c.used) {
		c.set("groups", g, tomltext.Strings(openClawGroups[g]), "group:"+g)
	}
}
