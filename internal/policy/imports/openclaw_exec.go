package imports

import (
	"slices"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// The values of the settings, from the loose to the strict.
var (
	securities = []string{"full", "allowlist", "deny"}
	asks       = []string{"off", "on-miss", "always"}
)

// execModes are what tools.exec.mode stands for.
var execModes = map[string][2]string{
	"deny": {"deny", "off"}, "allowlist": {"allowlist", "off"}, "ask": {"allowlist", "on-miss"}, "auto": {"allowlist", "on-miss"}, "full": {"full", "off"},
}

// exec writes the approvals of tools.exec. For all agents, what isn't given is toolguard's default, which is stricter than OpenClaw's.
func (c *claw) exec(e *object, header string) {
	security, ask := e.text("security", securities...), e.text("ask", asks...)
	if mode := e.text("mode", "deny", "allowlist", "ask", "auto", "full"); mode != "" {
		own := execModes[mode]
		security, ask = strictest(securities, security, own[0]), strictest(asks, ask, own[1])
		if mode == "auto" {
			c.leave(e.at("mode"), "no model decides about commands: a person is asked")
		}
	}
	all := header == "approvals"
	if all && c.old && security == "" && ask == "" {
		e.rest("applyPatch", "host", "node", "timeoutSec", "backgroundMs", "notifyOnExit", "cleanupMs", "pathPrepend")
		return
	}
	if all && (security == "" || ask == "") {
		c.note(header, `The source's own defaults are security "full" and ask "off": each command runs, and nobody is asked.`)
	}
	c.approvals(header, e, map[string]string{"security": security, "ask": ask}, all)
	if all {
		e.rest("applyPatch", "host", "node", "timeoutSec", "backgroundMs", "notifyOnExit", "cleanupMs", "pathPrepend")
	}
}

// approvalDefaults are toolguard's own.
var approvalDefaults = map[string]string{"security": "allowlist", "ask": "on-miss", "ask_fallback": "deny"}

func (i *importer) approvals(header string, o *object, values map[string]string, all bool) {
	for _, key := range []string{"security", "ask", "ask_fallback"} {
		switch v := values[key]; {
		case v != "":
			i.set(header, key, tomltext.Quote(v), o.at(strings.ReplaceAll(key, "_f", "F")))
		case all:
			i.set(header, key, tomltext.Quote(approvalDefaults[key]), "not given; this is toolguard's default")
		}
	}
}

// strictest returns the stricter one of two values, "" being the loosest.
func strictest(order []string, a, b string) string {
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// execApprovals reads exec-approvals.json. An agent's settings count before those of "*", and those before the defaults.
func (i *importer) execApprovals(o *object) {
	if v := o.number("version"); v != 1 {
		i.fail("version", "it isn't 1")
	}
	agents, defaults := o.object("agents"), o.object("defaults")
	every := agents.object("*")
	i.choices()
	i.note("approvals", `The source's own defaults are security "full", ask "off" and askFallback "full": each command runs, and nobody is asked.`)
	base := map[string]string{}
	for key, of := range map[string]string{"security": "security", "ask": "ask", "ask_fallback": "askFallback"} {
		order := securities
		if key == "ask" {
			order = asks
		}
		if base[key] = every.text(of, order...); base[key] == "" {
			base[key] = defaults.text(of, order...)
		}
	}
	i.approvals("approvals", defaults, base, true)
	i.skills(defaults)
	i.skills(every)
	i.allowlist(every, "access")
	for _, id := range agents.keys() {
		if id == "*" {
			continue
		}
		a := agents.object(id)
		i.approvals(join("approvals", "agents", id), a, map[string]string{
			"security": a.text("security", securities...), "ask": a.text("ask", asks...), "ask_fallback": a.text("askFallback", securities...),
		}, false)
		i.skills(a)
		i.allowlist(a, join("authorities", "agent", id, "access"))
		a.rest("allowlist")
	}
	every.rest("allowlist")
	defaults.rest()
	o.rest("version", "socket", "agents", "defaults")
}

func (i *importer) skills(o *object) {
	if on, _ := o.flag("autoAllowSkills"); on {
		i.leave(o.at("autoAllowSkills"), "programs of skills aren't known: a person is asked about them")
	}
}

// allowlist writes the commands that are listed. A command that isn't listed is asked about, so the default stays to allow.
func (i *importer) allowlist(a *object, header string) {
	written := false
	for _, e := range a.objects("allowlist") {
		pattern, args := e.text("pattern"), e.text("argPattern")
		e.rest("id", "pattern", "argPattern", "source", "commandText", "lastUsedAt", "lastUsedCommand", "lastResolvedPath")
		switch {
		case args != "":
			i.leave(e.at("argPattern"), "arguments are listed one by one, not by an expression; left out, so a person is asked")
			continue
		case !programName(pattern):
			i.leave(e.at("pattern"), "%s is neither the name nor the absolute path of a program; left out, so a person is asked", tomltext.Quote(pattern))
			continue
		}
		if !written && header != "access" {
			i.set(header, "default", `{ commands = "allow" }`, "what isn't listed is asked about")
		}
		written = true
		own := header + ".commands." + tomltext.Key(pattern)
		i.comment(i.table(own), e.at("pattern"))
	}
}

// programName reports whether a rule can be for the program.
func programName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "*?[]{}=~$%\\ \t\r\n\x00") && (s[0] == '/' || !strings.Contains(s, "/")) && s != "." && s != ".."
}
