package imports

import (
	"cmp"
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
	e.unrelated("node", "timeoutSec", "backgroundMs", "notifyOnExit", "cleanupMs")
	if all && c.old && security == "" && ask == "" {
		return
	}
	if all && (security == "" || ask == "") {
		c.note(header, `The source's own defaults are security "full" and ask "off": each command runs, and nobody is asked.`)
	}
	c.approvals(header, e, map[string]string{"security": security, "ask": ask}, all)
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
	i.choices("rw")
	i.note("approvals", `The source's own defaults are security "full", ask "off" and askFallback "full": each command runs, and nobody is asked.`)
	base := execSettings(every, execSettings(defaults, nil))
	i.approvals("approvals", defaults, base, true)
	i.skills(defaults)
	i.skills(every)
	i.allowlist(every.objects("allowlist"), "access", every.at("allowlist"))
	own := map[string]*object{}
	for _, id := range agents.keys() {
		if id != "*" {
			own[id] = agents.object(id)
		}
	}
	for _, id := range sortedKeys(own) {
		a := own[id]
		i.approvals(join("approvals", "agents", id), a, execSettings(a, nil), false)
		i.skills(a)
		i.allowlist(a.objects("allowlist"), listFor(id, own, base), a.at("allowlist"))
	}
	o.unrelated("socket")
}

// execSettings are the settings of a table, over others.
func execSettings(o *object, over map[string]string) map[string]string {
	own := map[string]string{
		"security": o.text("security", securities...), "ask": o.text("ask", asks...), "ask_fallback": o.text("askFallback", securities...),
	}
	for key, v := range over {
		own[key] = cmp.Or(own[key], v)
	}
	return own
}

// listFor returns the table for the list of one agent: that for all if it makes no difference to any other one what is listed. The rules of
// an agent's own table restrict, and list nothing.
func listFor(id string, agents map[string]*object, base map[string]string) string {
	indifferent := func(s map[string]string) bool {
		security := cmp.Or(s["security"], approvalDefaults["security"])
		return security == "deny" || s["ask_fallback"] != "allowlist" && (security == "full" || s["ask"] == "always")
	}
	for other, a := range agents {
		if other != id && !indifferent(execSettings(a, base)) {
			return ""
		}
	}
	if !indifferent(base) {
		return ""
	}
	return "access"
}

func (i *importer) skills(o *object) {
	if on, _ := o.flag("autoAllowSkills"); on {
		i.leave(o.at("autoAllowSkills"), "programs of skills aren't known: a person is asked about them")
	}
}

// allowlist writes the commands that are listed, if there's a table for them.
func (i *importer) allowlist(entries []*object, header, at string) {
	if header == "" && len(entries) > 0 {
		i.leave(at, "one agent's list would be that of others, too; left out, so a person is asked")
	}
	for _, e := range entries {
		pattern, args := e.text("pattern"), e.text("argPattern")
		e.unrelated("id", "source", "commandText", "lastUsedAt", "lastUsedCommand", "lastResolvedPath")
		switch {
		case args != "":
			i.leave(e.at("argPattern"), "arguments are listed one by one, not by an expression; left out, so a person is asked")
		case !programName(pattern):
			i.leave(e.at("pattern"), "%s is neither the name nor the absolute path of a program; left out, so a person is asked", tomltext.Quote(pattern))
		case header != "":
			i.comment(i.table(header+".commands."+tomltext.Key(pattern)), e.at("pattern"))
		}
	}
}

// programName reports whether a rule can be for the program.
func programName(s string) bool {
	return s != "" && !strings.ContainsAny(s, "*?[]{}=~$%\\ \t\r\n\x00") && (s[0] == '/' || !strings.Contains(s, "/")) && s != "." && s != ".."
}
