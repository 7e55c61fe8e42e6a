package imports

import (
	"cmp"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
	"github.com/toolguard/toolguard/internal/policy/toolset"
)

// jp reads JP's configuration: conversation.tools, with the grants of its RFD 076.
func (i *importer) jp(o *object) {
	o.unrelated("assistant", "style", "editor", "user", "template", "providers")
	if on, given := o.flag("inherit"); given && on {
		i.leave("inherit", "other files aren't read: what they add is missing")
	}
	conversation := o.object("conversation")
	tools := conversation.object("tools")
	conversation.unrelated("title", "attachments", "default_id", "start_local")
	defaults := tools.object("*")
	on, run := jpEnabled(defaults, true), jpRun(defaults, "")
	i.note("approvals", "A tool with ask = \"always\" waits for a person. There is no list of allowed commands.")
	i.set("approvals", "security", `"full"`)
	i.set("approvals", "ask", `"off"`)
	i.set("approvals", "ask_fallback", `"deny"`)
	i.note("access", "Without access, a tool of JP's has the workspace, every host and every variable. Each table says so itself.")
	i.set("access", "default", `{ fs = "deny", net = "deny", env = "deny", commands = "allow" }`)
	names := []string{}
	for _, key := range tools.keys() {
		if key == "*" {
			continue
		}
		t := tools.object(key)
		if name := i.jpTool(t, key, run); name != "" && jpEnabled(t, on) {
			names = append(names, name)
		}
	}
	defaults.unrelated("style", "cancellation_response")
	i.set("authorities.global", "allow", tomltext.Strings(names), "conversation.tools.*.enable")
}

// jpEnabled is whether a tool is enabled.
func jpEnabled(t *object, otherwise bool) bool {
	switch v := t.get("enable").(type) {
	case nil:
		return otherwise
	case bool:
		return v
	case string:
		if s := t.text("enable", "true", "on", "always", "false", "off", "explicit"); s == "true" || s == "on" || s == "always" {
			return true
		}
		return false
	}
	own := t.object("enable")
	if on, given := own.flag("state"); given {
		return on
	}
	return otherwise
}

func jpRun(t *object, otherwise string) string {
	if run := t.text("run", "ask", "unattended", "edit", "skip"); run != "" {
		return run
	}
	return otherwise
}

// jpTool writes the table of a tool, and returns its name, "" for none that toolguard can have.
func (i *importer) jpTool(t *object, key, run string) string {
	name, source := key, t.text("source")
	kind, of, _ := strings.Cut(source, ".")
	if kind == "mcp" {
		server, own, _ := strings.Cut(of, ".")
		own = cmp.Or(own, key)
		name = "mcp__" + server + "__" + own
		if server == "" {
			i.fail(t.at("source"), "it names no server")
		}
	} else if kind != "" && kind != "local" && kind != "builtin" {
		i.fail(t.at("source"), "%s is none of builtin, local, mcp", tomltext.Quote(kind))
	}
	if t.has("access") && (kind == "mcp" || kind == "builtin") {
		i.fail(t.at("access"), "access is for local tools alone")
	}
	if !toolset.ValidName(name) {
		i.leave(t.path, "no tool can have this name: it stays invisible")
		t.listed()
		return ""
	}
	header := i.tool(name)
	if kind != "" {
		i.set(header, "source", tomltext.Quote(kind), t.at("source"))
	}
	if jpKinds[name] == "" && kind == "local" {
		// Nothing says what the tool does to the paths among its arguments. The gate then asks for one capability at least.
		i.note(header, "kind = \"read\", \"list\", \"create\", \"modify\", \"delete\", \"move\" or \"execute\" would make the gate stricter")
	}
	i.jpMode(t, header, jpRun(t, run))
	if kind == "local" || kind == "" {
		i.jpAccess(t.object("access"), header)
	}
	t.unrelated("summary", "description", "examples", "parameters", "style", "format", "questions", "options", "cancellation_response")
	return name
}

// jpKinds are the tools of JP's own whose kind is built in.
var jpKinds = map[string]string{
	"fs_read_file": "read", "fs_grep_files": "read", "fs_grep_user_docs": "read", "fs_list_files": "list", "fs_create_file": "create",
	"fs_modify_file": "modify", "fs_delete_file": "delete", "fs_move_file": "move",
}

func (i *importer) jpMode(t *object, header, run string) {
	from := "conversation.tools.*.run"
	if t.has("run") {
		from = t.at("run")
	}
	switch run {
	case "unattended":
		i.set(header, "ask", `"off"`, from)
	case "skip":
		i.set(header, "constraints.forbidden", "true", from)
	case "":
		i.note(header, "run isn't given: a person is asked")
		i.set(header, "ask", `"always"`)
	default:
		i.set(header, "ask", `"always"`, from)
		if run == "edit" {
			i.leave(t.at("run"), "a person can't edit a call, and is asked about it")
		}
	}
}

func (i *importer) jpAccess(a *object, header string) {
	access := header + ".access"
	fs, net, env := jpRules(a, "fs"), jpRules(a, "net"), jpRules(a, "env")
	defaults := tomltext.Keys{}
	for _, x := range []struct {
		name string
		list []*object
	}{{"net", net}, {"env", env}} {
		if defaults.AddString(x.name, "deny"); len(x.list) == 0 {
			defaults[len(defaults)-1] = x.name + ` = "allow"`
		}
	}
	i.set(access, "default", append(tomltext.Keys{`fs = "deny"`}, defaults...).Inline(), a.path)
	if len(fs) == 0 {
		i.note(access, "no rule of access.fs: the whole workspace")
		i.add(access+".fs", tomltext.Keys{`path = "."`, "read = true", "write = true", "execute = true"})
	}
	for _, r := range fs {
		i.jpPath(r, access)
	}
	for _, r := range net {
		i.jpHost(r, access)
	}
	for _, r := range env {
		name := r.text("name")
		if name == "" || strings.Contains(strings.TrimSuffix(name, "*"), "*") {
			i.fail(r.at("name"), "it's no name of a variable")
		}
		k := tomltext.Keys{"name = " + tomltext.Quote(name)}
		on, _ := r.flag("read")
		k.AddFlag("read", on)
		i.add(access+".env", k, r.path)
	}
}

// jpRules returns a list of rules, which may be written with a strategy.
func jpRules(a *object, key string) []*object {
	m, ok := a.m[key].(map[string]any)
	if !ok {
		return a.objects(key)
	}
	own := a.im.object(m, a.at(key))
	a.read[key] = true
	own.text("strategy", "append", "prepend", "replace", "dedup")
	list := own.objects("value")
	own.unrelated("discard_when_merged", "dedup")
	return list
}

func (i *importer) jpPath(r *object, access string) {
	p := r.text("path")
	clean := path.Clean(p)
	if p == "" || strings.HasPrefix(p, "/") || hasParent(p) {
		i.fail(r.at("path"), "it isn't a path in the workspace")
		return
	}
	if external, _ := r.flag("external"); external {
		i.leave(r.path, "external: what a symlink out of the workspace leads to has to be approved there; left out")
		r.listed()
		return
	}
	k := literalPath(clean)
	for _, c := range []string{"read", "write", "create", "update", "delete", "execute"} {
		if on, given := r.flag(c); given && on {
			k.Add(c, "true")
		} else if given && c != "write" {
			k.Add(c, "false")
		}
	}
	i.add(access+".fs", k, r.path)
}

// literalPath is a rule's path that is meant literally.
func literalPath(p string) tomltext.Keys {
	if strings.HasPrefix(p, "~") {
		p = "./" + p // of a rule, ~/ is the home
	}
	k := tomltext.Keys{"path = " + tomltext.Quote(p)}
	k.AddFlag("literal", strings.ContainsAny(p, "$%*?[:\\") || strings.TrimSpace(p) != p)
	return k
}

func (i *importer) jpHost(r *object, access string) {
	k := tomltext.Keys{"host = " + tomltext.Quote(r.text("host"))}
	scheme := r.text("scheme")
	k.AddString("scheme", strings.ToLower(scheme))
	if port := r.number("port"); port > 0 {
		k.Add("port", strconv.Itoa(port))
	}
	prefix := r.text("path_prefix")
	k.AddString("path_prefix", prefix)
	if prefix != "" && prefix[0] != '/' {
		i.fail(r.at("path_prefix"), "it doesn't begin with /")
	}
	allow, _ := r.flag("allow")
	k.AddFlag("allow", allow)
	if t := i.table(access); prefix != "" && !strings.EqualFold(scheme, "http") && !slices.Contains(t.lines, "tls_intercept = true") {
		i.note(access, "path_prefix is enforced on https only with a certificate made for the session. Without, write scheme = \"http\" in the rules.")
		i.set(access, "tls_intercept", "true")
	}
	i.add(access+".net", k, r.path)
}
