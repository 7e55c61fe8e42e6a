package imports

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/toolguard/toolguard/internal/policy/tomltext"
)

// claudePath is a path or a pattern of a file rule.
type claudePath struct {
	spec string // a literal path, or a match
	glob bool   // it's a match
	at   string
}

// deniedPath returns what a rule that denies is about. It may be wider than the rule, and is listed then.
func (c *claude) deniedPath(r claudeRule) claudePath {
	p, exact := r.path()
	if !exact {
		c.leave(r.at, "%s is no pattern of a rule: %s in its place", tomltext.Quote(r.text), tomltext.Quote(p.spec))
	}
	return p
}

// path returns what a pattern in the form of gitignore is as a rule of toolguard's. If it isn't exact, it's wider.
func (r claudeRule) path() (p claudePath, exact bool) {
	spec := strings.TrimSpace(r.spec)
	of := func(p string, glob, exact bool) (claudePath, bool) { return claudePath{p, glob, r.at}, exact }
	anchored := strings.HasPrefix(spec, "/") || strings.HasPrefix(spec, "./") || strings.HasPrefix(spec, "~/")
	base := "" // what comes before the pattern: "/", "~/" or the workspace
	switch {
	case hasParent(spec):
		return of("/", false, false) // it may lead anywhere
	case strings.HasPrefix(spec, "//"):
		base, spec = "/", strings.TrimLeft(spec, "/")
	case strings.HasPrefix(spec, "~/"):
		base, spec = "~/", spec[2:]
	default:
		spec = strings.TrimPrefix(strings.TrimPrefix(spec, "./"), "/")
	}
	if strings.ContainsAny(spec, "?[]{}\\!\x00") || spec == "" {
		return of(cleanBase(base), false, false)
	}
	spec = strings.TrimSuffix(strings.TrimSuffix(spec, "/**"), "/")
	anchored = anchored || strings.Contains(strings.TrimSuffix(strings.TrimSpace(r.spec), "/"), "/")
	literal := !strings.Contains(spec, "*")
	switch {
	case spec == "" || spec == "**" || spec == "*":
		return of(cleanBase(base), false, true)
	case literal && anchored:
		return of(base+path.Clean(spec), false, true)
	case literal:
		return of("**/"+spec, true, true) // a name alone is at any depth
	}
	head, last, deep := strings.Cut(spec, "**/")
	if !deep && !strings.Contains(spec, "/") && !anchored {
		head, last, deep = "", spec, true
	}
	if deep && !strings.Contains(head, "*") && matchName(last) && (head == "" || strings.HasSuffix(head, "/")) {
		return of(base+head+"**/"+last, true, true)
	}
	if dir, last := path.Split(spec); !strings.Contains(dir, "*") && matchName(last) {
		return of(base+dir+"**/"+last, true, false)
	}
	// The folder before the first wildcard.
	dir := spec[:strings.Index(spec, "*")]
	if n := strings.LastIndex(dir, "/"); n >= 0 {
		return of(base+dir[:n], false, false)
	}
	return of(cleanBase(base), false, false)
}

func cleanBase(base string) string {
	switch base {
	case "":
		return "."
	case "~/":
		return "~"
	}
	return base
}

// matchName reports whether it's the end of a match: a name, "PREFIX*" or "*SUFFIX", and literal names.
func matchName(s string) bool {
	first, rest, _ := strings.Cut(s, "/")
	body := strings.TrimSuffix(first, "*")
	if body == first {
		body = strings.TrimPrefix(first, "*")
	}
	return body != "" && !strings.Contains(body, "*") && !strings.Contains(rest, "*") && !strings.HasSuffix(s, "/") && body != "." && body != ".."
}

// grant notes a folder outside the workspace that may be used, unless a deny rule could be about something in it.
func (c *claude) grant(at, spec string) {
	switch {
	case strings.ContainsAny(spec, "*?[]{}\\$%\x00") || spec == "" || hasParent(spec),
		strings.HasPrefix(spec, "//"), strings.HasPrefix(spec, "~") && spec != "~" && !strings.HasPrefix(spec, "~/"):
		c.leave(at, "%s isn't one folder by its absolute path; left out, so it isn't granted", tomltext.Quote(spec))
	case !strings.HasPrefix(spec, "/") && !strings.HasPrefix(spec, "~"):
		// In the workspace, which is granted.
	default:
		c.grants = append(c.grants, claudePath{path.Clean(spec), false, at})
	}
}

// files writes the rules about files. Those that deny are in the global stage: what one stage denies, no other one grants.
func (c *claude) files(edit bool) {
	c.set("access", "default", `{ fs = "deny", net = "deny", commands = "allow" }`, "the workspace is granted, and no host but by WebFetch")
	k := tomltext.Keys{`path = "."`, "read = true", "write = true", "execute = true"}
	if !edit {
		k = tomltext.Keys{`path = "."`, "read = true", "execute = true"}
	}
	c.add("access.fs", k)
	for _, g := range c.grants {
		k := literalGrant(g.spec)
		k.AddFlag("read", true)
		k.AddFlag("write", edit && strings.HasSuffix(g.at, "additionalDirectories"))
		c.add("access.fs", k, g.at)
	}
	if len(c.readDenied)+len(c.editDenied) == 0 {
		return
	}
	const header = "authorities.global.access"
	c.set(header, "default.fs", `"allow"`, "the rules here only deny")
	for _, p := range c.editDenied {
		k := p.keys()
		if len(c.readDenied) == 0 {
			k.AddFlag("read", true)
			k.AddFlag("execute", true)
		} else {
			c.leave(p.at, "%s: a rule about reading could be about it, too: reading is denied as well", tomltext.Quote(p.spec))
		}
		c.add(header+".fs", k, p.at)
	}
	for _, p := range c.readDenied {
		c.add(header+".fs", p.keys(), p.at)
	}
}

func (p claudePath) keys() tomltext.Keys {
	if p.glob {
		return tomltext.Keys{"match = " + tomltext.Quote(p.spec)}
	}
	return literalGrant(p.spec)
}

// literalGrant is a rule's path, of which a leading ~ is the home.
func literalGrant(p string) tomltext.Keys {
	if p == "~" || strings.HasPrefix(p, "~/") {
		k := literalPath(strings.TrimPrefix(p, "~"))
		k[0] = "path = " + tomltext.Quote(p)
		return k
	}
	return literalPath(p)
}

// write writes everything that was collected.
func (c *claude) write(mode, at string) {
	if c.from["Edit"] != "" && c.ask["Edit"] == "off" && c.from["Write"] == "" {
		c.leave(c.from["Edit"], "\"Edit\": a person is asked about the other tools that change files")
	}
	ask := "on-miss"
	if mode == "dontAsk" {
		ask = "off"
	}
	c.set("approvals", "security", tomltext.Quote(c.security), "permissions")
	c.set("approvals", "ask", tomltext.Quote(ask))
	c.set("approvals", "ask_fallback", `"deny"`)
	c.files(mode != "plan")
	if len(c.deny.deny) > 0 {
		c.deny.write(c.importer, "authorities.global")
	}
	if c.from["WebFetch"] == "" && len(c.hosts) > 0 {
		c.ask["WebFetch"], c.from["WebFetch"] = "off", "WebFetch(domain:…); other hosts are denied"
	}
	for _, p := range sortedKeys(c.ask) {
		from := cmp.Or(c.from[p], "not in permissions: Claude Code asks")
		c.set(c.tool(p), "ask", tomltext.Quote(c.ask[p]), from)
		if mode == "dontAsk" { // what would be asked about is denied
			c.set(c.tool(p), "constraints.forbidden", strconv.FormatBool(c.ask[p] == "always"), at)
		}
	}
	c.bash()
	c.web()
}

// web writes the rules about hosts. Those that deny are in the global stage: a host of its own comes before a wildcard in one stage.
func (c *claude) web() {
	web := c.tool("WebFetch") + ".access"
	if c.hostsOpen && !c.hostDenied {
		c.set(web, "default.net", `"allow"`, c.from["WebFetch"])
	} else {
		c.set(web, "default.net", `"deny"`)
		if c.hostsOpen {
			c.leave(c.from["WebFetch"], "WebFetch: deny rules are about hosts; left out, so hosts without a rule are denied")
		}
	}
	for _, h := range c.hosts {
		c.add(web+".net", tomltext.Keys{"host = " + tomltext.Quote(h.name), "allow = true"}, h.at)
	}
	const header = "authorities.global.access"
	if len(c.deniedHosts) > 0 {
		c.set(header, "default.net", `"allow"`, "the rules here only deny")
	}
	for _, h := range c.deniedHosts {
		c.add(header+".net", tomltext.Keys{"host = " + tomltext.Quote(h.name)}, h.at)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
