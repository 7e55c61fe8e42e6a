package imports

import (
	"cmp"
	"slices"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// clawBox is what a table says about an OpenClaw's sandbox.
type clawBox struct {
	mode, access string // "" where it isn't given
	at           string // the key of access
}

// workspaces are the kinds of access to the workspace, from the loose to the strict.
var workspaces = []string{"rw", "ro", "none"}

// workspace is the access to the agent's workspace. A sandbox has none unless the configuration says so.
func (b clawBox) workspace() string {
	if b.access == "" && b.on() {
		return "none"
	}
	return cmp.Or(b.access, "rw")
}

func (b clawBox) on() bool { return b.mode != "" && b.mode != "off" }

// box reads a sandbox's table, over the one of all agents.
func (c *claw) box(o *object, all clawBox) clawBox {
	b := clawBox{mode: o.text("mode", "off", "non-main", "all"), access: o.text("workspaceAccess", workspaces...), at: o.at("workspaceAccess")}
	b.mode = cmp.Or(b.mode, all.mode)
	b.access = cmp.Or(b.access, all.access)
	docker := o.object("docker")
	if network := docker.text("network"); network != "" && network != "none" {
		c.leave(docker.at("network"), "%s: no host is allowed in its place", tomltext.Quote(network))
	}
	docker.unrelated("image", "containerPrefix", "workdir")
	o.unrelated("workspaceRoot", "prune")
	if access := b.workspace(); access != all.workspace() && access != "rw" {
		c.leave(b.at, "%q is written whether there's a sandbox or not", access)
	}
	return b
}

// agentBox writes the rule of the workspace for an agent whose sandbox has less of it than those of all.
func (c *claw) agentBox(o *object, header string, all clawBox) {
	own := c.box(o, all)
	switch access := own.workspace(); {
	case access == all.workspace():
	case strictest(workspaces, access, all.workspace()) == access:
		header += ".access"
		c.set(header, "default.fs", `"allow"`, "the rule here only denies")
		c.add(header+".fs", workspaceGrant(access), own.at)
	default:
		c.leave(own.at, "the workspace of all agents is %q: no agent has more of it", all.workspace())
	}
}

// The lists of OpenClaw's sandbox, where the configuration has none.
var (
	sandboxDeny  = []string{"browser", "canvas", "nodes", "cron", "gateway"}
	sandboxAllow = []string{
		"exec", "process", "read", "write", "edit", "apply_patch", "image", "sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "session_status",
	}
)

func (c *claw) sandbox(t *object, box clawBox, agents []*object) {
	on := box.on()
	for _, a := range agents {
		if mode, _ := a.object("sandbox").m["mode"].(string); mode != "" && mode != "off" && !on {
			on = true
			c.leave(a.object("sandbox").at("mode"), "a sandbox's tools are the same for all agents here")
		}
	}
	s, also := c.stage(t, t.path)
	if !t.has("allow") && !t.has("deny") && !on {
		c.unused(t, also)
		return
	}
	if t.has("allow") {
		c.unused(t, also)
	} else {
		s.filters, s.allow = true, append(slices.Clone(sandboxAllow), also...)
		s.from = append(s.from, "the allowed tools are the default")
	}
	if !t.has("deny") {
		s.from = append(s.from, "the denied tools are the default")
		for _, e := range sandboxDeny {
			if !slices.Contains(s.allow, e) {
				s.deny = append(s.deny, e)
			}
		}
	}
	s.write(c.importer, "authorities.sandbox")
}

// unused lists an alsoAllow that has nothing to be added to.
func (c *claw) unused(t *object, also []string) {
	if len(also) > 0 {
		c.leave(t.at("alsoAllow"), "there's no list that it adds to; left out")
	}
}

// disabled denies the tools of plugins that aren't loaded: each plugin's, as nothing says which tools one has.
func (c *claw) disabled(p *object, s *stage) {
	deny := func(at string) {
		s.deny = append(s.deny, toolset.GroupPrefix+toolset.GroupPlugins)
		s.from = append(s.from, at)
		c.leave(at, "the plugins' tools aren't known: each tool of which the host names a plugin is denied in their place")
	}
	if on, given := p.flag("enabled"); given && !on {
		deny(p.at("enabled"))
	}
	for _, key := range []string{"deny", "allow"} {
		if list, _ := p.texts(key); len(list) > 0 {
			deny(p.at(key))
		}
	}
	entries := p.object("entries")
	for _, id := range entries.keys() {
		e := entries.object(id)
		if on, given := e.flag("enabled"); given && !on {
			deny(e.at("enabled"))
		}
		e.unrelated("config", "apiKey", "env")
	}
}
