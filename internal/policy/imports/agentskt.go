package imports

import (
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/netname"
	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// agentsKt reads a permission manifest of Agents.KT, version 1 or 2.
func (i *importer) agentsKt(o *object) {
	if f := o.text("format"); f != "" && f != "agents-kt.permission-manifest" {
		i.fail("format", "it's no permission manifest")
	}
	if v := o.number("agentsKtManifestVersion"); v != 1 && v != 2 {
		i.fail("agentsKtManifestVersion", "it's neither 1 nor 2")
	}
	o.text("manifestSha256")
	i.note("access", "This is what applies to a tool whose manifest has no policy, or says nothing of a resource: there, such a tool is unrestricted.")
	i.set("access", "default", `{ fs = "deny", net = "deny", env = "deny", commands = "deny" }`)
	i.add("access.fs", tomltext.Keys{`path = "."`, "read = true", "write = true"})
	seen, agents := map[string]any{}, map[string]bool{}
	for _, a := range o.objects("agents") {
		name := a.text("name")
		if name == "" || agents[strings.ToLower(name)] {
			i.fail(a.at("name"), "agents need names of their own")
			return
		}
		agents[strings.ToLower(name)] = true
		i.ktAgent(a, name, seen)
	}
	o.unrelated("subject", "options", "composition", "schemas")
}

func (i *importer) ktAgent(a *object, agent string, seen map[string]any) {
	s := stage{filters: true, from: []string{a.at("tools")}}
	for _, t := range a.objects("tools") {
		name := t.text("name")
		if !toolset.ValidName(name) {
			i.leave(t.at("name"), "no tool can have the name %s: it stays invisible", tomltext.Quote(name))
			t.listed()
			continue
		}
		s.allow = append(s.allow, name)
		switch earlier, twice := seen[toolset.Normal(name)]; {
		case twice && !reflect.DeepEqual(earlier, t.m):
			i.leave(t.path, "another agent has a tool %s with another policy, and here a tool has one: nobody may call it", tomltext.Quote(name))
			t.listed()
			i.once(i.tool(name), "constraints.forbidden", "true", t.path)
		case !twice:
			seen[toolset.Normal(name)] = t.m
			i.ktTool(t, i.tool(name))
		default:
			t.listed() // as before
		}
	}
	skills, tools := 0, slices.Clone(s.allow)
	for _, k := range a.objects("skills") {
		k.unrelated("name", "description", "inputType", "outputType")
		if list, _ := k.texts("toolAllowlist"); len(list) > 0 {
			s.from = append(s.from, k.at("toolAllowlist"))
			s.restrict(slices.DeleteFunc(list, func(t string) bool { return !toolset.ValidName(t) }))
			skills++
		}
	}
	if skills > 1 {
		i.leave(a.at("skills"), "there are no lists for skills: the agent has the tools that all of its skills have")
	}
	p := a.object("policy")
	list, _ := p.texts("approvalRequiredTools")
	i.ktAsk(list, p.at("approvalRequiredTools"))
	if ktOversight(a) {
		i.ktAsk(tools, a.at("humanOversight"))
	}
	p.unrelated("redactionFields")
	s.write(i, join("authorities", "agent", agent))
	a.unrelated("inputTypes", "outputType", "provider", "memory")
}

// ktAsk demands a person's decision about each call of some tools.
func (i *importer) ktAsk(tools []string, at string) {
	for _, name := range tools {
		if !toolset.ValidName(name) {
			i.leave(at, "no tool can have the name %s", tomltext.Quote(name))
			continue
		}
		i.once("approvals", "security", `"full"`, at)
		i.once(i.tool(name), "ask", `"always"`, at)
	}
}

// ktOversight reports whether a person oversees all that an agent does.
func ktOversight(a *object) bool {
	if on, isFlag := a.get("humanOversight").(bool); isFlag {
		return on
	}
	on, _ := a.object("humanOversight").flag("required")
	return on
}

// once sets a key that has no value yet.
func (i *importer) once(header, key, value string, from ...string) {
	for _, l := range i.table(header).lines {
		if strings.HasPrefix(l, key+" = ") {
			return
		}
	}
	i.set(header, key, value, from...)
}

func (i *importer) ktTool(t *object, header string) {
	p := t.object("policy")
	risk, from := ktRisk(t), t.at("risk")
	if own := ktRisk(p); strictest(ktRisks, risk, own) != risk {
		risk, from = own, p.at("risk")
	}
	if risk != "" {
		i.set(header, "risk", tomltext.Quote(risk), from)
	}
	c := t.object("constraints")
	if n := c.number("maxInvocations"); n > 0 {
		i.set(header, "constraints.max_invocations", strconv.Itoa(n), c.at("maxInvocations"))
	}
	if after, _ := c.texts("onlyAfter"); len(after) > 0 {
		if slices.ContainsFunc(after, func(n string) bool { return !toolset.ValidName(n) }) {
			i.leave(c.at("onlyAfter"), "no tool can have such a name: the tool is never called")
			i.once(header, "constraints.forbidden", "true", c.at("onlyAfter"))
		} else {
			i.set(header, "constraints.only_after", tomltext.Strings(after), c.at("onlyAfter"))
		}
	}
	if on, _ := c.flag("forbidden"); on {
		i.once(header, "constraints.forbidden", "true", c.at("forbidden"))
	}
	if len(p.m) > 0 {
		i.ktPolicy(p, header+".access")
	}
	if on, _ := t.flag("untrustedOutput"); on {
		i.leave(t.at("untrustedOutput"), "no equivalent, left out")
	}
	t.unrelated("description", "inputType", "declaresCapability")
}

// ktRisks are the risks, from the low to the high.
var ktRisks = []string{"low", "medium", "high", "critical"}

func ktRisk(o *object) string {
	risk := strings.ToLower(o.text("risk"))
	if risk != "" && !slices.Contains(ktRisks, risk) {
		o.im.fail(o.at("risk"), "%s is none of low, medium, high, critical", tomltext.Quote(risk))
	}
	return risk
}

// ktPolicy writes the grants of a tool. What isn't specified is denied, except files: for these, the workspace remains.
func (i *importer) ktPolicy(p *object, header string) {
	fs, net, env, exec := p.object("filesystem"), p.object("network"), p.object("environment"), p.object("exec")
	read, write := fs.object("read"), fs.object("write")
	modes := []string{ktMode(read, "globs", "none"), ktMode(write, "globs", "none")}
	var defaults tomltext.Keys
	declared := modes[0] != "" || modes[1] != ""
	if declared {
		defaults.AddString("fs", "deny")
	}
	netMode, envMode, execMode := ktMode(net, "denyall", "hosts", "allowall"), ktMode(env, "denyall", "allow", "variables", "allowlist", "names", "allowall"), ktMode(exec, "allow", "deny")
	for _, x := range []struct {
		name string
		open bool
	}{{"net", netMode == "allowall"}, {"env", envMode == "allowall"}, {"commands", execMode == "allow"}} {
		if x.open {
			defaults.AddString(x.name, "allow")
		} else {
			defaults.AddString(x.name, "deny")
		}
	}
	if netMode == "" || envMode == "" || execMode == "" {
		i.note(header, "what isn't specified is denied here")
	}
	i.set(header, "default", defaults.Inline(), p.path)
	i.ktFiles(read, write, header)
	hosts, _ := net.texts("hosts")
	for _, h := range hosts {
		if netMode == "hosts" && validHost(h) {
			i.add(header+".net", tomltext.Keys{"host = " + tomltext.Quote(h), "allow = true"}, net.at("hosts"))
		} else if netMode == "hosts" {
			i.leave(net.at("hosts"), "%s is no host of a rule; left out, so it's denied", tomltext.Quote(h))
		}
	}
	names, _ := env.texts("variables")
	for _, v := range names {
		if envMode != "denyall" && envMode != "allowall" && validVariable(v) {
			i.add(header+".env", tomltext.Keys{"name = " + tomltext.Quote(v), "read = true"}, env.at("variables"))
		} else if envMode != "denyall" && envMode != "allowall" {
			i.leave(env.at("variables"), "%s is no variable of a rule; left out, so it's denied", tomltext.Quote(v))
		}
	}
}

// validHost reports whether a rule can have the host.
func validHost(h string) bool {
	name, wild := strings.CutPrefix(h, "*.")
	_, addr, err := netname.Parse(name)
	return err == nil && !(wild && addr.IsValid())
}

func validVariable(s string) bool {
	return s != "" && !strings.ContainsAny(s, "*=?[$% \t\r\n\x00")
}

// ktMode returns the mode in lower case, "" where it isn't specified.
func ktMode(o *object, modes ...string) string {
	m := strings.ToLower(o.text("mode"))
	if m == "unspecified" || m == "" {
		return ""
	}
	if !slices.Contains(modes, m) {
		o.im.fail(o.at("mode"), "%s is none of %s", tomltext.Quote(m), strings.Join(modes, ", "))
	}
	return m
}

// ktFiles writes the rules of the globs. A rule decides alone, so each one has what all globs around it grant.
func (i *importer) ktFiles(read, write *object, header string) {
	reads, writes := i.ktGlobs(read), i.ktGlobs(write)
	for _, p := range unique(slices.Concat(reads, writes)) {
		k := literalPath(p)
		k.AddFlag("read", within(p, reads))
		k.AddFlag("write", within(p, writes))
		from := []string{}
		if within(p, reads) {
			from = append(from, read.at("globs"))
		}
		if within(p, writes) {
			from = append(from, write.at("globs"))
		}
		i.add(header+".fs", k, from...)
	}
}

// ktGlobs returns the folders of globs that are for everything in a folder.
func (i *importer) ktGlobs(o *object) (out []string) {
	globs, _ := o.texts("globs")
	if ktMode(o, "globs", "none") != "globs" {
		return nil
	}
	for _, g := range globs {
		dir, all := strings.CutSuffix(g, "/**")
		switch {
		case !strings.HasPrefix(g, "/"):
			i.leave(o.at("globs"), "%s is relative, and matches no absolute path there; left out", tomltext.Quote(g))
		case hasDots(dir):
			i.leave(o.at("globs"), "%s has . or .. in it, and matches as it's written there; left out, so it's denied", tomltext.Quote(g))
		case strings.ContainsAny(dir, "*?[]{}\\\x00"):
			i.leave(o.at("globs"), "%s is no pattern of a rule; left out, so it's denied", tomltext.Quote(g))
		case !all:
			i.leave(o.at("globs"), "%s is a single file, and a rule is for everything beneath, too; left out, so it's denied", tomltext.Quote(g))
		default:
			out = append(out, path.Clean("/"+dir))
		}
	}
	return out
}

// within reports whether a path is one of the folders, or beneath one.
func within(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return p == d || strings.HasPrefix(p, strings.TrimSuffix(d, "/")+"/") })
}

// hasDots reports whether an element of a path is . or ..
func hasDots(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(e string) bool { return e == "." || e == ".." })
}

// hasParent reports whether an element of a path is ..
func hasParent(p string) bool { return slices.Contains(strings.Split(p, "/"), "..") }
