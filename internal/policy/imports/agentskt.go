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
	o.rest("format", "subject", "options", "composition", "schemas")
}

func (i *importer) ktAgent(a *object, agent string, seen map[string]any) {
	s := stage{filters: true, from: []string{a.at("tools")}}
	for _, t := range a.objects("tools") {
		name := t.text("name")
		if !toolset.ValidName(name) {
			i.leave(t.at("name"), "no tool can have the name %s: it stays invisible", tomltext.Quote(name))
			continue
		}
		s.allow = append(s.allow, name)
		switch earlier, twice := seen[toolset.Normal(name)]; {
		case twice && !reflect.DeepEqual(earlier, t.m):
			i.leave(t.path, "another agent has a tool %s with another policy, and here a tool has one: nobody may call it", tomltext.Quote(name))
			i.once(join("tools", name), "constraints.forbidden", "true", t.path)
		case !twice:
			seen[toolset.Normal(name)] = t.m
			i.ktTool(t, join("tools", name))
		}
	}
	skills := 0
	for _, k := range a.objects("skills") {
		k.rest("name", "description", "toolAllowlist")
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
	for _, name := range list {
		if toolset.ValidName(name) {
			i.once("approvals", "security", `"full"`, p.at("approvalRequiredTools"))
			i.once(join("tools", name), "ask", `"always"`, p.at("approvalRequiredTools"))
		}
	}
	p.rest("approvalRequiredTools", "redactionFields")
	s.write(i, join("authorities", "agent", agent))
	a.rest("name", "inputTypes", "outputType", "provider", "skills", "tools", "memory", "mcp", "policy")
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
	i.ktRisk(t, header)
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
	c.rest()
	if p := t.object("policy"); len(p.m) > 0 {
		i.ktPolicy(p, header+".access")
	}
	t.rest("name", "description", "inputType", "untrustedOutput", "risk", "declaresCapability", "policy", "constraints")
}

// ktRisk writes the higher one of the risks of a tool and of its policy.
func (i *importer) ktRisk(t *object, header string) {
	risks := []string{"", "low", "medium", "high", "critical"}
	risk, from := 0, ""
	for _, o := range []*object{t, t.object("policy")} {
		n := slices.Index(risks, strings.ToLower(o.text("risk")))
		if n == -1 {
			i.fail(o.at("risk"), "%s is none of low, medium, high, critical", tomltext.Quote(o.text("risk")))
		}
		if n > risk {
			risk, from = n, o.at("risk")
		}
	}
	if risk > 0 {
		i.set(header, "risk", tomltext.Quote(risks[risk]), from)
	}
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
	for _, x := range []*object{read, write, net, env, exec} {
		x.rest("globs")
	}
	fs.rest()
	p.rest("filesystem", "network", "environment", "exec")
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
		case path.Clean("/"+dir) != "/"+strings.Trim(dir, "/"):
			i.leave(o.at("globs"), "%s isn't a path as it's compared there; left out, so it's denied", tomltext.Quote(g))
		case !strings.HasPrefix(g, "/"):
			i.leave(o.at("globs"), "%s is relative, and matches no absolute path there; left out", tomltext.Quote(g))
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
